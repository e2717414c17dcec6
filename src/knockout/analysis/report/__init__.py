"""What people read: sentences, tables, figures, the pages, and the audit trail of every number."""
