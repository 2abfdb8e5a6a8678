"""What all verbs share: streams, questions, tables, progress, Ctrl-C, exit statuses."""
