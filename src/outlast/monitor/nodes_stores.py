"""x y z."""
from outlast.monitor.nodes_losses import no_losses
def places_given(p): return {}
def StoreLosses(p): return no_losses
