"""The open-loop load engine, one process per node: ``python -m harness.engine --help``.

server      the wire protocol with the driver, the execution cap, heartbeat and lifetime
execution   one target's load: pacer → pool → recorder, then the wait for what is in flight
pacer       releases requests on an absolute schedule, whatever the server does
pool        which connection a released request takes, and what becomes of it when there is none
connection  one HTTP/1.1 connection
recorder    outcomes and statistics under Nighthawk's names
spec        the shapes that come over the wire, checked
"""
