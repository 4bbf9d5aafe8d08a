"""PlacesTree: scopes, subjects and entities as a tree, whose branches are filled when opened."""

from collections.abc import Iterable

from rich.text import Text
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from factmem._cli.place_names import place_name
from factmem.models._display import shown
from factmem.models.places import Place

_Branch = dict[str, list[Place]]

_OPEN = 200
"""Branches with more places are closed at first: a screen shows fewer, and closed ones cost
nothing."""


class PlacesTree(Tree[Place | list[Place]]):
    """The places of a store. The data of a leaf is a place, that of a branch a list of places."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(Text("places"), id=id)
        self.show_root = False
        self.guide_depth = 2

    def show(self, places: Iterable[Place], containing: str = "") -> int:
        """Show the places whose name contains a string, and return their number."""
        self.clear()
        wanted = containing.casefold()
        chosen = [each for each in places if wanted in place_name(each).casefold()]
        scopes: _Branch = {}
        for place in chosen:
            kind, scope, *_ = place.identity
            scopes.setdefault(f"{kind} {scope}", []).append(place)
        for label, held in scopes.items():
            node = self.root.add(Text(shown(label)), data=held, expand=True)
            self._add_subjects(node, held)
        self.root.expand()
        self.call_after_refresh(self._place_cursor)
        return len(chosen)

    def _place_cursor(self) -> None:
        """Put the cursor on the first line if it is on none."""
        self.cursor_line = max(self.cursor_line, 0)

    def _add_subjects(self, node: TreeNode[Place | list[Place]], places: list[Place]) -> None:
        subjects: _Branch = {}
        for place in places:
            subjects.setdefault(str(place.identity[2]), []).append(place)
        for label, held in subjects.items():
            if len(held) == 1 and held[0].identity[3] is None:
                node.add_leaf(Text(shown(label)), data=held[0])
                continue
            branch = node.add(Text(f"{shown(label)} ({len(held):,})"), data=held)
            if len(held) <= _OPEN:
                branch.expand()

    def on_tree_node_expanded(self, event: "Tree.NodeExpanded[Place | list[Place]]") -> None:
        """Add the entities of a subject when it opens for the first time."""
        node = event.node
        if node.parent is None or node.parent is self.root or node.children:
            return
        held = node.data
        if isinstance(held, list):
            for place in held:
                entity = place.identity[3]
                node.add_leaf(Text("(itself)" if entity is None else shown(entity)), data=place)
