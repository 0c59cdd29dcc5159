"""The service account that every pod has: its files, the certificate of the API server for pods, and its rights.

Facts as of 2026-11-30. Kubernetes, "Accessing the API from a Pod": token, ca.crt and namespace in
/var/run/secrets/kubernetes.io/serviceaccount; KUBERNETES_SERVICE_HOST and _PORT lead to the server, over TLS. "RBAC":
an account may do nothing unless it is granted. Here it is granted, or not, to read nodes and pods, which is what
outlast asks for; roles and bindings are not emulated.
"""

import datetime
import ipaddress
import secrets
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from starlette.responses import JSONResponse

from outlast.emulate.kubernetes import asking
from outlast.emulate.kubernetes.problems import Refused
from outlast.emulate.serving import LOOPBACK, Application, Receive, Scope, Send

_DAYS = 30
_READABLE = ("Node", "Pod")
_MADE_FOR = ("kubernetes", "kubernetes.default.svc")


class ServiceAccount:
    """Writes the account's files into `folder`, and the server's key and certificate beside it."""

    def __init__(self, folder: Path, *, may_read: bool) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._token, self._may_read = secrets.token_urlsafe(24), may_read
        self.certificate = folder.parent / "apiserver.pem"
        (folder / "token").write_text(self._token)
        (folder / "namespace").write_text("default")
        (folder / "ca.crt").write_bytes(make_certificate(self.certificate))

    def guard(self, application: Application) -> Application:
        """The API as pods see it: 401 without the token, 403 for all but reading nodes and pods."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            headers = {name.lower(): value.decode("latin-1") for name, value in scope.get("headers", ())}
            scheme, _, token = headers.get(b"authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not secrets.compare_digest(token.strip(), self._token):
                await _refused(401, "Unauthorized", "Unauthorized")(scope, receive, send)
            elif not self._allows(scope):
                who = 'User "system:serviceaccount:default:default" cannot do this'
                message = f"{scope['path']} is forbidden: {who}"
                await _refused(403, "Forbidden", message)(scope, receive, send)
            else:
                await application(scope, receive, send)

        return serve

    def _allows(self, scope: Scope) -> bool:
        path = str(scope["path"])
        if scope["method"] != "GET":
            return False
        if not asking.is_of_objects(path):
            return True  # what anybody may ask: versions, discovery
        try:
            asked = asking.place_of(path)
        except Refused:
            return False  # there is no such kind, so nobody was granted it
        return self._may_read and asked.kind.name in _READABLE and asked.subresource in ("", "status")


def _refused(code: int, reason: str, message: str) -> JSONResponse:
    return JSONResponse(Refused(code, reason, message).status(), code)


def make_certificate(place: Path) -> bytes:
    """Writes a key and a certificate of its own authority, for an API server on loopback; returns the certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _MADE_FOR[0])])
    now = datetime.datetime.now(datetime.UTC)
    names = [*(x509.DNSName(one) for one in _MADE_FOR), x509.IPAddress(ipaddress.ip_address(LOOPBACK))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    ).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    place.touch(mode=0o600)
    place.write_bytes(private + certificate)
    return certificate
