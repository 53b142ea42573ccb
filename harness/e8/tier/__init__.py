"""The embedded system under test: a real tier of processes on 127.0.0.1 that speaks the surface a deployment speaks.

    launcher ─┬─ store       leases, presence of sandboxes, sessions; counts its connections
              ├─ stub        the model endpoint: Anthropic-style SSE with a programmed pace
              ├─ relay ───── sandbox-0 … sandbox-(K-1)   agents that run real commands, each in its own folder
              └─ supervisor ─ worker-0 … worker-(W-1)    admission W × S; one event loop per worker

A turn: the supervisor accepts the connection, finds the worker with the fewest turns in flight and hands the socket
over (or answers 429); the worker leases a sandbox for the whole turn (or answers 503), asks the model, runs what the
model calls for through the relay, asks again, and answers.

``python -m harness.e8.tier --state FILE`` brings all of it up and writes FILE, whole, once turns are taken; callers use
``harness.e8.tier.handle``. Every process is configured by environment variables (``settings.py`` owns names, ranges and
defaults), dies with its parent and has a deadline of its own.
"""
