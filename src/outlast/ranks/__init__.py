"""Several processes that train together: who they are, how they find each other, agree on a step, and save together.

world       who this process is among them          messages    what they say to each other
wire        a connection, sealed with a secret      meeting     where members find the leader
threshold   those who have not proven themselves
agreement   at which border all meet                gathering   what has come from whom
fate        what it means that one has left         bond        what both roles share: gate, fate, guard
leader      the connections of rank 0               member      the connection to it
leading     saves as rank 0 leads them              following   a member's share in them
journal     what a member alone has to tell
"""
