"""Secrets: made once on one machine, copied from there, never seen by a plan. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from corral.hosts.quote import Script, sh
from corral.state.base import Change, Context, Impact, SecretRef, Seen, Standalone


@dataclass(frozen=True, slots=True)
class Secret(Standalone):
    """A file of random bytes, equal on all nodes that want it.

    Attributes:
        path: absolute path.
        source: the node on which it is made, and from which the others get it.
        owner: ``user:group``.
        mode: octal as ``stat -c %a`` prints it.
        size: random bytes to make.
        optional: it is not made when the source has none; the other nodes then have none either.
    """

    path: str
    source: str
    owner: str
    mode: str = "600"
    size: int = 1024
    optional: bool = False

    @property
    def id(self) -> str:
        """``secret:<path>``."""
        return f"secret:{self.path}"

    def probe(self) -> Script:
        """Digest (of random bytes: it reveals nothing), size, mode and owner."""
        return sh(
            "if [ -s {path} ]; then d=$(sha256sum < {path}); "
            "echo \"${{d%% *}} $(stat -c '%a %U:%G' {path})\"; else echo absent; fi",
            path=self.path,
        )

    def diff(self, seen: Seen, context: Context) -> Change | None:
        """On the source: make it when absent. Elsewhere: copy it when it is not the source's."""
        digest, _, attributes = seen.text.partition(" ")
        desired = f"{self.mode} {self.owner}"
        here = context.node == self.source
        known = context.secrets.get(self.id)
        if (here and digest != "absent") or (not here and known is not None and digest == known):
            return None if attributes == desired else self._attributes(attributes, desired)
        if self.optional and known is None:
            return None if digest == "absent" else self._remove()
        before = "" if digest == "absent" else "another key"
        if here:
            return Change(
                self.id, f"make {self.path}", before, f"{self.size} random bytes", self._make()
            )
        return Change(
            self.id,
            f"copy {self.path} from {self.source}",
            before,
            f"the key of {self.source}",
            self._receive(),
            Impact.NONE if digest == "absent" else Impact.RESTART,
            (SecretRef(self.id, self.source, self.path),),
        )

    def _attributes(self, before: str, desired: str) -> Change:
        return Change(
            self.id,
            f"owner and mode of {self.path}",
            before,
            desired,
            sh(
                "chown {owner} {path} && chmod {mode} {path}",
                owner=self.owner,
                mode=self.mode,
                path=self.path,
            ),
        )

    def _remove(self) -> Change:
        return Change(
            self.id,
            f"remove {self.path}: {self.source} has none",
            "its own key",
            "",
            sh("rm -f {path}", path=self.path),
            Impact.RESTART,
        )

    def _make(self) -> Script:
        return self._into_place(sh("head -c {size} /dev/urandom", size=self.size))

    def _receive(self) -> Script:
        return self._into_place(sh('IFS= read -r n && head -c "$n"'))

    def _into_place(self, produce: Script) -> Script:
        return sh(
            "umask 077 && mkdir -p {parent} && t=$(mktemp {path}.corral.XXXXXX) && "
            '{{ {produce}; }} > "$t" && [ -s "$t" ] && chown {owner} "$t" && chmod {mode} "$t" && '
            'mv -f "$t" {path} && rm -f {path}.corral.??????',
            parent=self.path.rpartition("/")[0],
            path=self.path,
            produce=produce,
            owner=self.owner,
            mode=self.mode,
        )
