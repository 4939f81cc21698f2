"""A sigstore of the test's own: certificate authority, certificate log and transparency log, with keys made here.

:class:`World` signs as the public services do (Fulcio's certificates with an embedded timestamp of the certificate log,
RFC 6962; Rekor's ``dsse`` entries with inclusion proof, checkpoint and signed entry timestamp), so that the library
verifies its bundles without knowing the difference. :func:`serve` answers its two HTTP interfaces.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import json
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

IDENTITY = "https://example.com/orbit/release.yml@refs/heads/main"
ISSUER = "https://issuer.example.com"
ISSUER_OID = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
SCT_OID = ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
LIFE = dt.timedelta(minutes=10)
ORIGIN = "log.example.com - 1"
ECDSA = ec.ECDSA(hashes.SHA256())


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@dataclass
class World:
    """All services in one."""

    began: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC).replace(microsecond=0))
    authority: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    certificate_log: ec.EllipticCurvePrivateKey = field(default_factory=new_key)
    log: ec.EllipticCurvePrivateKey = field(default_factory=new_key)

    def __post_init__(self) -> None:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority")])
        self.root = self._builder(name, name, self.authority.public_key(), dt.timedelta(days=3650)).add_extension(
            x509.BasicConstraints(ca=True, path_length=1), critical=True
        )
        self.root = self.root.add_extension(usage(ca=True), critical=True)
        self.root = self.root.sign(self.authority, hashes.SHA256())

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: dt.timedelta
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.began - dt.timedelta(minutes=5))
            .not_valid_after(self.began + life)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        )

    def certificate(
        self, key: ec.EllipticCurvePublicKey, identity: str = IDENTITY, issuer: str = ISSUER
    ) -> x509.Certificate:
        """What Fulcio gives: a certificate for an identity, with the timestamp of the certificate log in it."""
        bare = (
            self._builder(x509.Name([]), self.root.subject, key, LIFE)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority.public_key()), False)
            .add_extension(usage(ca=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(identity)]), critical=True)
            .add_extension(x509.UnrecognizedExtension(ISSUER_OID, issuer.encode()), critical=False)
        )
        tbs = bare.sign(self.authority, hashes.SHA256()).tbs_certificate_bytes
        stamp = x509.UnrecognizedExtension(SCT_OID, self._certificate_timestamp(tbs))
        return bare.add_extension(stamp, critical=False).sign(self.authority, hashes.SHA256())

    def _certificate_timestamp(self, tbs: bytes) -> bytes:
        """SignedCertificateTimestampList of RFC 6962, section 3.3, in a DER OCTET STRING."""
        when = int(self.began.timestamp() * 1000)
        entry = hashlib.sha256(spki(self.authority)).digest() + struct.pack("!I", len(tbs))[1:] + tbs
        sig = self.certificate_log.sign(struct.pack("!BBQH", 0, 0, when, 1) + entry + b"\0\0", ECDSA)
        log_id = hashlib.sha256(spki(self.certificate_log)).digest()
        sct = b"\0" + log_id + struct.pack("!QHBBH", when, 0, 4, 3, len(sig)) + sig
        listed = struct.pack("!HH", len(sct) + 2, len(sct)) + sct
        return bytes([0x04, len(listed)] if len(listed) < 128 else [0x04, 0x81, len(listed)]) + listed

    def entry(self, payload: bytes, envelope: str, sig: str, verifier: str) -> dict[str, Any]:
        """What Rekor answers: the only entry of a log, with all its proofs."""
        body = canonical(
            {
                "apiVersion": "0.0.1",
                "kind": "dsse",
                "spec": {
                    "envelopeHash": {"algorithm": "sha256", "value": hashlib.sha256(envelope.encode()).hexdigest()},
                    "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()},
                    "signatures": [{"signature": sig, "verifier": verifier}],
                },
            }
        )
        log_id = hashlib.sha256(spki(self.log)).digest()
        when = int(self.began.timestamp())
        root = hashlib.sha256(b"\0" + body).digest()
        note = f"{ORIGIN}\n1\n{b64(root)}\n"
        mark = b64(log_id[:4] + self.log.sign(note.encode(), ECDSA))
        promise = {"body": b64(body), "integratedTime": when, "logID": log_id.hex(), "logIndex": 0}
        return {
            **promise,
            "verification": {
                "signedEntryTimestamp": b64(self.log.sign(canonical(promise), ECDSA)),
                "inclusionProof": {
                    "logIndex": 0,
                    "treeSize": 1,
                    "rootHash": root.hex(),
                    "hashes": [],
                    "checkpoint": f"{note}\n\u2014 log.example.com {mark}\n",
                },
            },
        }

    def bundle(self, payload: bytes, payload_type: str, pae: bytes, **who: str) -> dict[str, Any]:
        """A bundle around ``payload``, as the library writes one."""
        key = new_key()
        certificate = self.certificate(key.public_key(), **who)
        sig = b64(key.sign(pae, ECDSA))
        envelope = {"payload": b64(payload), "payloadType": payload_type, "signatures": [{"sig": sig}]}
        entry = self.entry(payload, json.dumps(envelope), sig, b64(certificate.public_bytes(Encoding.PEM)))
        proof = entry["verification"]["inclusionProof"]
        return {
            "mediaType": BUNDLE,
            "dsseEnvelope": envelope,
            "verificationMaterial": {
                "certificate": {"rawBytes": b64(certificate.public_bytes(Encoding.DER))},
                "tlogEntries": [
                    {
                        "logIndex": "0",
                        "logId": {"keyId": b64(bytes.fromhex(entry["logID"]))},
                        "kindVersion": {"kind": "dsse", "version": "0.0.1"},
                        "integratedTime": str(entry["integratedTime"]),
                        "inclusionPromise": {"signedEntryTimestamp": entry["verification"]["signedEntryTimestamp"]},
                        "inclusionProof": {
                            "logIndex": "0",
                            "rootHash": b64(bytes.fromhex(proof["rootHash"])),
                            "treeSize": "1",
                            "hashes": [],
                            "checkpoint": {"envelope": proof["checkpoint"]},
                        },
                        "canonicalizedBody": entry["body"],
                    }
                ],
            },
        }

    def trusted_root(self) -> dict[str, Any]:
        """What whoever verifies must know of this world."""
        since = {"start": (self.began - dt.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")}
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log_instance(self.log, since)],
            "ctlogs": [log_instance(self.certificate_log, since)],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "example", "commonName": "an authority"},
                    "uri": "https://example.com",
                    "certChain": {"certificates": [{"rawBytes": b64(self.root.public_bytes(Encoding.DER))}]},
                    "validFor": since,
                }
            ],
            "timestampAuthorities": [],
        }

    def config(self, url: str) -> dict[str, Any]:
        """A ClientTrustConfig whose services are at ``url``."""
        since = {"start": (self.began - dt.timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")}
        service = {"url": url, "majorApiVersion": 1, "validFor": since, "operator": "example"}
        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self.trusted_root(),
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": [service],
                "oidcUrls": [service],
                "rekorTlogUrls": [service],
                "tsaUrls": [],
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaConfig": {"selector": "ANY"},
            },
        }

    def answer(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        """What the services say to a request."""
        if path.endswith("/signingCert"):
            request = x509.load_pem_x509_csr(base64.b64decode(asked["certificateSigningRequest"]))
            key = request.public_key()
            assert isinstance(key, ec.EllipticCurvePublicKey)
            chain = [self.certificate(key), self.root]
            pems = [certificate.public_bytes(Encoding.PEM).decode() for certificate in chain]
            return {"signedCertificateEmbeddedSct": {"chain": {"certificates": pems}}}
        content = asked["spec"]["proposedContent"]
        envelope = json.loads(content["envelope"])
        (sig,) = envelope["signatures"]
        payload = base64.b64decode(envelope["payload"])
        return {"ab" * 32: self.entry(payload, content["envelope"], sig["sig"], content["verifiers"][0])}


def usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not ca,
        key_cert_sign=ca,
        crl_sign=ca,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def log_instance(key: ec.EllipticCurvePrivateKey, since: dict[str, str]) -> dict[str, Any]:
    return {
        "baseUrl": "https://log.example.com",
        "hashAlgorithm": "SHA2_256",
        "publicKey": {"rawBytes": b64(spki(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": since},
        "logId": {"keyId": b64(hashlib.sha256(spki(key)).digest())},
    }


def canonical(value: dict[str, Any]) -> bytes:
    """RFC 8785, for the plain ASCII that is in it here."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


@contextlib.contextmanager
def serve(world: World, *, status: int = 200) -> Iterator[str]:
    """The services of ``world`` at an address of this machine; with another ``status`` they refuse everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            data = json.dumps(world.answer(self.path, asked) if status == 200 else {"message": "no"}).encode()
            self.send_response(status if status != 200 else 201)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
