"""What people look at: annotated pictures, the progress bar, the table at the end."""
