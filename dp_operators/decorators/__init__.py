"""Task decorators of this provider: ``@task.private_release``."""
