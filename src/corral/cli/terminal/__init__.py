"""What every verb shows and asks by: streams, text, tables, progress, Ctrl-C."""
