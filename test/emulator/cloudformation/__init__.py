"""A small, strict CloudFormation.

Moto's own lies too often to be patched: it skips unknown types, finds change sets by name alone, turns
failures into HTTP 500, does not roll back, does not tell dependants of an update, recreates what it
should update, and passes SSM parameters' values where their names belong. This one does not reach
into moto at all: it creates, updates and deletes through the services' public APIs (see resources/).

What it leaves out, loudly (such a template fails): imports of exports, nested stacks, macros, dynamic
references, stack policies, drift, rules. What it does not do unless a test puts something in the way
(obstacles): wait, fail, or run anything in the background. A change set is executed within the request that
asks for it, resource by resource.
"""
