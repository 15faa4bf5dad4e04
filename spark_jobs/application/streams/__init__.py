"""Streams of counts in the application: exact counts and the open state, which never leave the driver unencrypted."""
