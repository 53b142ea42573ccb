"""What doit needs to run stages as tasks: receipts, a dependency backend that reads them, a reporter, an entry."""
