"""Files that somebody else wrote: read without loss, judged, corrected, carried over. Pure."""
