"""A verdict for continuous integration: JUnit XML, and a Markdown summary. Nothing here judges."""
