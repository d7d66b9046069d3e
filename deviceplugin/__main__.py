"""`python -m deviceplugin` is `gpu-device-plugin`."""

import sys

from deviceplugin.cli import main

sys.exit(main())
