"""Files that somebody else wrote: parsed without loss, checked, corrected. Pure."""
