"""The plugin on a pretend GPU node, from registration to recovery, readable in a minute."""
