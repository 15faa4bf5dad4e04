"""Methods for lines through points in a public box that a request names (``mechanisms.regression``)."""
