"""What Millstream tells its operators: metrics and logs."""
