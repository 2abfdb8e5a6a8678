"""Each public name and its module, once: what type checkers see, and what ``__init__.py`` reads."""

from corral.api.cluster import Cluster as Cluster
from corral.api.cluster import open as open
from corral.api.config.files import lint as lint
from corral.api.config.known_clusters import known_clusters as known_clusters
from corral.api.workload.function import JobFuture as JobFuture
from corral.api.workload.handle import Job as Job
from corral.errors import CorralError as CorralError
from corral.events import Event as Event
from corral.jobs.model import JobSpec as JobSpec
