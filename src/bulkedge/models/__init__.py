"""What is to be learned, by whom and how: links, networks, losses, problems. Solves nothing."""

from bulkedge.models.conventions import from_convention
from bulkedge.models.network import Network
from bulkedge.models.problem import Problem

__all__ = ["Network", "Problem", "from_convention"]
