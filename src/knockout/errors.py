"""The one kind of error that a user is shown without a traceback."""


class UserError(Exception):
    """What the user can mend: one message on standard error, exit code 2, and nothing was written."""
