"""The errors that a user is shown without a traceback: those of the user, and those of the disk."""

import errno

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
PROTECTED = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class UserError(Exception):
    """What the user can mend: one message on standard error, exit code 2, and nothing was written."""


def disk_error_text(error: OSError) -> str:
    """What the system refused, where, and how to go on: one line."""
    where = " and ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    what = error.strerror or str(error)
    text = f"{where}: {what}" if where else what
    if error.errno in FULL:
        return f"{text}; make room on the disk, or name a folder on another"
    if error.errno in PROTECTED:
        return f"{text}; make it writable, or name another folder"
    return text
