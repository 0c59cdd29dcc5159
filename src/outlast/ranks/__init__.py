"""Several processes that train together: who they are, how they find each other, agree on a step, and save together.

world       who this process is among them          messages    what they say to each other
wire        a connection, sealed with a secret      meeting     where members find the leader
agreement   at which border all meet                gathering   what has come from whom
channel     the connections of one process          leader, member   the two roles
following   the saves of a member
"""
