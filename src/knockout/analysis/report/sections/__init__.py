"""The sections of a report, one function each: what it says and the rows of its tables, once for HTML and Markdown."""
