"""How people log in to the controller's page, next to Slurm's tokens."""

from __future__ import annotations

from corral.spec.values import (
    AbsolutePath,
    Address,
    Claim,
    ClientId,
    HeaderName,
    Issuer,
    Model,
    UserName,
    about,
)


class HeaderLogin(Model):
    """A reverse proxy on the controller that knows who comes."""

    proxy: UserName = about(
        "restart",
        "System user of the proxy on the controller; headers that anybody else sends do not count.",
        default="www-data",
    )
    header: HeaderName = about(
        "restart",
        "Request header in which the proxy names the person; it must overwrite what browsers send.",
        default="Remote-User",
    )
    secret_file: AbsolutePath = about(
        "none",
        "File on the controller, root's alone, whose first line the proxy sends as "
        "`X-Corral-Secret`; 32 characters at least.",
    )


class OidcLogin(Model):
    """An OpenID provider that people log in to (authorisation code with PKCE)."""

    issuer: Issuer = about("restart", "The provider's issuer; it is asked by TLS alone.")
    client: ClientId = about("restart", "What the provider calls this page (client_id).")
    secret_file: AbsolutePath | None = about(
        "restart",
        "File on the controller, root's alone, whose first line is the client's secret; left out: "
        "a public client.",
        default=None,
    )
    claim: Claim = about(
        "restart",
        "Claim of the ID token, or of the provider's userinfo, that has the user's name on the "
        "cluster; people must not be able to change it there. Of email the provider must have "
        "verified the address.",
        default="preferred_username",
    )
    domain: Address | None = about(
        "restart",
        "Domain behind an @ in the claim, which is left out of the user's name; people of other "
        "domains are refused.",
        default=None,
    )
    scopes: tuple[Claim, ...] = about(
        "restart", "Scopes that are asked for, next to openid.", default=("profile", "email")
    )
    ca: AbsolutePath | None = about(
        "restart",
        "File on the controller with the authority's certificate (PEM) that the provider's is "
        "signed by; left out: those that the controller trusts.",
        default=None,
    )
    logout: bool = about(
        "restart",
        "A log-out of the page is one of the provider too, which sends the browser back to the "
        "page: its address must be registered there (post_logout_redirect_uri).",
        default=False,
    )


class PageLogin(Model):
    """Ways to log in; each person gets a Slurm token of eight hours from a program of root's."""

    groups: tuple[UserName, ...] = about(
        "restart",
        "Groups, one of which a person must be in to log in by these ways; left out: everybody "
        "whom the controller knows.",
        default=(),
    )
    header: HeaderLogin | None = about(
        "restart", "By a reverse proxy on the controller that names the person.", default=None
    )
    oidc: OidcLogin | None = about(
        "restart", "By an OpenID provider, such as Keycloak or Entra ID.", default=None
    )
    passwords: bool = about(
        "restart",
        "By people's own passwords on the controller, of the directory too (PAM).",
        default=False,
    )
