"""What ``spark-submit`` is given to start.

The folder holds nothing else: ``spark-submit`` puts it on the path, and beside the other modules of this package
``statistics`` would hide the standard library's.
"""
