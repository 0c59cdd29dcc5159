"""Every warning of the end, merged into one revocable notice with a deadline.

Hearing and acting are apart. Signals are heard by a listener thread (`signals`), what a platform announces elsewhere
by a thread for each source (`watching`). The board merges what they say, and arms a guard thread that leaves shortly
before the platform would kill the process; the loop acts at its next border.
"""

from outlast.notices.board import NoticeBoard
from outlast.notices.notice import Notice, make_notice
from outlast.notices.process import listen

__all__ = ["Notice", "NoticeBoard", "listen", "make_notice"]
