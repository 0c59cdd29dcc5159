"""A job on Cloud Run: what it is to be (`settings`), its files (`dockerfile`, `manifest`), its steps (`steps`).

`patch` changes a manifest that is there already, by no more than survival needs.
"""
