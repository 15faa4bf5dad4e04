"""Private lines through points in a public box, after Alabi, McMillan, Sarathy, Smith, Vadhan (PoPETs 2022), corrected.

Points lie in the box [0, 1] x [0, 1] on a public grid: the whole number ``u`` from 0 to ``steps`` represents
``u / steps``. Sums over points are therefore exact whole numbers, and noise is added only to whole numbers.
"""
