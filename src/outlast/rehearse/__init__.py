"""Proves that a command survives interruptions: runs it in peace, then interrupted, and compares what comes out.

From the command to its verdict, in the order in which to read:

    request          what is asked for                  runner           the whole, from first to last
    baseline         an uninterrupted run               profile          what it shows: how long, when it saves
    interrupted      attempt after attempt              course           one attempt, to its end
    cut_saves        killed at each place of a save     many_notices     warned in the middle of one
    cut_batches      the same for batch work            rank_ends        one of several ranks killed or warned
    results          what is compared                   ranks            which processes those are
    verdict          what that proves, and why          findings         what else was found
    not_exercised    what it says nothing about         report           the proof, as text and JSON

What goes wrong: scenario (as data), scenario_file and traces (how it is written), script (what one rehearsal
plays), words and procedures (what each word makes happen on its platform).

Where: site (all runs), stage (one run: its folder and environment), sandbox and ignore (what a copy holds),
node_runner (one command on several nodes).

What is seen: attempt (of one), ending (how it ended), watch (writes), notice (processes that are warned),
storage (writes that fail), elsewhere (files outside of the copy), outputs (what it printed).

How results are compared: compare, documents and pickles (files), records and sqlite_tables (lists of records),
checkpoints (of outlast jobs), batches and batch_life (queues and sinks).

How it is shown: display (while it runs), page, page_parts and estimate (one HTML file), attempt_lines (its timeline).
"""
