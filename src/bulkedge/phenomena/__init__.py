"""A phenomenon is a prediction and a measurement of the same quantity, over the same knob, with a verdict.

Every file here whose name does not begin with an underscore is a phenomenon: `phase_diagram.py` holds the
`PHENOMENON` of the name "phase-diagram". Adding one is adding the file (docs/phenomena.md). What several share is in
files that begin with an underscore. None of them is loaded before it is asked for.
"""

import pkgutil

from bulkedge.foundation import registry

for _module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    if not _module.startswith("_"):
        registry.declare(_module.replace("_", "-"), f"{__name__}.{_module}:PHENOMENON")
