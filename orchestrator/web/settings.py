"""The service's settings: options of `sparring serve`, `web.yaml` in the contest's folder, and Django's settings."""

import secrets
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from orchestrator.errors import UsageError
from orchestrator.files import write_once

FILE_NAME = "web.yaml"
"""The file in which organizers configure the service, beside contest.yaml."""
FOLDER = "web"
"""The subfolder of a contest's folder for the service's own files; all of them may be deleted."""
FORM_BYTES = 64 * 1024 * 1024
"""The largest file that a form takes; larger ones are uploaded in parts."""
CODE_TRIES = "try_code"
"""The name of the action under which allauth counts the codes that a client tries."""
SESSION_AGE = timedelta(days=14)
DATABASE_SCHEMA = "sparring_web"
"""The PostgreSQL schema of the service's own tables."""
DATABASE_SECONDS = 5
"""How long connecting to PostgreSQL may take."""
CONNECTION_SECONDS = 60
"""How long a thread keeps its connection to a database."""
_SECRET_BYTES = 48
_CACHE_ENTRIES = 100_000
"""How many entries the cache may have, which counts tries. Beyond it Django drops some: with its default of 300, a
client that requests 300 codes would make the service forget how often a code was guessed."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _require_http_address(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise ValueError("no address of a service; write it like https://cup.example.org")
    return f"{parts.scheme}://{parts.netloc}"


Address = Annotated[str, AfterValidator(_require_http_address)]


class MailSettings(_Part):
    """How mails leave. Without it they are written to the log, which suits a trial on one's own machine."""

    host: str
    port: int = Field(587, ge=1, le=65535)
    user: str = ""
    password_file: Path | None = None
    """A file that holds the password alone."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    sender: str
    """The address that mails come from."""


class OpenIdProvider(_Part):
    """A provider of OpenID Connect, such as a university's, through which people can sign in."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$", description="lower case, digits and -")]
    name: str
    server: str
    """The address of its discovery document, or the part of it before `/.well-known/`."""
    authorize_origin: str = ""
    """Where it asks people to sign in, as https://login.example.edu; where that is another host than `server`."""
    client_id: str
    secret_file: Path


class GitHubLogin(_Part):
    """An OAuth application of GitHub, through which people can sign in."""

    client_id: str
    secret_file: Path


class WebFile(_Part):
    """`web.yaml`."""

    address: Address | None = None
    """Where people find the service, as https://cup.example.org; needed behind a proxy and for mails."""
    trusted_proxies: int | None = Field(None, ge=0, le=5)
    """How many proxies in front of it add to X-Forwarded-For and say with X-Forwarded-Proto that they speak https.

    By default one where the address is https, since the service itself speaks no TLS, and none otherwise.
    """
    mail: MailSettings | None = None
    openid: list[OpenIdProvider] = []
    github: GitHubLogin | None = None
    largest_upload: int = Field(4 * 1024**3, ge=1)
    """Bytes of the largest file that a team may upload."""


class WebSettings(_Part):
    """The settings of a process of the service.

    Attributes:
        contest: the contest's folder.
        address: where people find the service.
        database: a URL of PostgreSQL for the service's own tables; None: a file in the contest's folder.
        file: what `web.yaml` says.
    """

    contest: Path
    address: Address
    database: str | None = None
    file: WebFile = WebFile()

    @property
    def folder(self) -> Path:
        """The folder of the service's own files."""
        return self.contest / FOLDER

    @property
    def is_secure(self) -> bool:
        """Whether people reach the service through TLS."""
        return self.address.startswith("https://")

    @property
    def trusted_proxies(self) -> int:
        """How many proxies in front of the service are trusted."""
        said = self.file.trusted_proxies
        return int(self.is_secure) if said is None else said


def read_secret_key(folder: Path) -> str:
    """Returns the key that signs sessions and the tokens of forms.

    The first start draws it and keeps it in a file that only its owner can read.
    """
    path = folder / "secret_key"
    if not path.exists():  # `write_once` makes processes that start at once all use the key of one of them
        write_once(path, secrets.token_urlsafe(_SECRET_BYTES).encode(), 0o600)
    return path.read_text("ascii")


def django_settings(settings: WebSettings) -> dict[str, Any]:
    """Returns Django's settings. Raises UsageError if a file with a secret cannot be read."""
    host = urlsplit(settings.address).hostname or ""
    prefix = "__Host-" if settings.is_secure else ""
    return {
        "SPARRING": settings,
        "SECRET_KEY": read_secret_key(settings.folder),
        "DEBUG": False,
        "ALLOWED_HOSTS": [host],
        "CSRF_TRUSTED_ORIGINS": [settings.address],
        "ROOT_URLCONF": "orchestrator.web.urls",
        "INSTALLED_APPS": _installed_apps(settings.file),
        "MIDDLEWARE": _MIDDLEWARE,
        "TEMPLATES": _TEMPLATES,
        "DATABASES": {"default": _database(settings)},
        "DEFAULT_AUTO_FIELD": "django.db.models.BigAutoField",
        "CACHES": {
            "default": {
                "BACKEND": "django.core.cache.backends.db.DatabaseCache",
                "LOCATION": "sparring_cache",
                "OPTIONS": {"MAX_ENTRIES": _CACHE_ENTRIES},
            },
        },
        "MESSAGE_STORAGE": "django.contrib.messages.storage.session.SessionStorage",
        "USE_TZ": True,
        "TIME_ZONE": "UTC",
        "USE_I18N": False,
        "SESSION_COOKIE_AGE": int(SESSION_AGE.total_seconds()),
        "SESSION_COOKIE_NAME": f"{prefix}session",
        "SESSION_COOKIE_SECURE": settings.is_secure,
        "SESSION_COOKIE_HTTPONLY": True,
        "SESSION_COOKIE_SAMESITE": "Lax",
        "CSRF_COOKIE_NAME": f"{prefix}csrf",
        "CSRF_COOKIE_SECURE": settings.is_secure,
        "CSRF_COOKIE_HTTPONLY": True,
        "CSRF_COOKIE_SAMESITE": "Lax",
        "CSRF_FAILURE_VIEW": "orchestrator.web.pages.errors.csrf_failure",
        "SECURE_CONTENT_TYPE_NOSNIFF": True,
        "SECURE_REFERRER_POLICY": "same-origin",
        "SECURE_CROSS_ORIGIN_OPENER_POLICY": "same-origin",
        "SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https") if settings.trusted_proxies else None,
        "X_FRAME_OPTIONS": "DENY",
        "CONTENT_SECURITY_POLICY": {"DIRECTIVES": _content_security_policy(settings.file)},
        "DATA_UPLOAD_MAX_MEMORY_SIZE": 1024 * 1024,
        "DATA_UPLOAD_MAX_NUMBER_FIELDS": 200,
        "FILE_UPLOAD_HANDLERS": ["orchestrator.web.form_uploads.BoundedUploadHandler"],
        "FILE_UPLOAD_TEMP_DIR": str(settings.folder),
        "LOGIN_URL": "account_request_login_code",
        "LOGIN_REDIRECT_URL": "home",
        "AUTH_USER_MODEL": "web.Account",
        "AUTHENTICATION_BACKENDS": ["allauth.account.auth_backends.AuthenticationBackend"],
        "LOGGING_CONFIG": None,
        **_account_settings(settings),
        **_mail(settings.file.mail),
    }


_MIDDLEWARE = [
    "orchestrator.web.middleware.protect_answers",
    "orchestrator.web.middleware.log_refusals",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "orchestrator.web.middleware.refuse_cross_site_requests",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "orchestrator.web.session_activity.note_activity",
    "orchestrator.web.middleware.translate_faults",
]
_TEMPLATES = [
    {
        "BACKEND": "django.template.backends.jinja2.Jinja2",
        "NAME": "jinja2",
        "OPTIONS": {
            "environment": "orchestrator.web.templating.environment",
            "context_processors": ["orchestrator.web.templating.page_context"],
        },
    },
    {  # for allauth's mails; the few pages that allauth renders with it are not served
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
    },
]


def _content_security_policy(file: WebFile) -> dict[str, list[str]]:
    """Returns the content security policy: pages may load the service's own files, and no inline code or style.

    Signing in through a provider begins with a form that redirects there, and browsers apply `form-action` to that.
    """
    providers = {_origin(each.authorize_origin or each.server) for each in file.openid}
    if file.github:
        providers.add("https://github.com")
    return {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "form-action": ["'self'", *sorted(providers)],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


def _installed_apps(file: WebFile) -> list[str]:
    logins = ["allauth.socialaccount.providers.openid_connect"] if file.openid else []
    logins += ["allauth.socialaccount.providers.github"] if file.github else []
    return [
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.messages",
        "django.contrib.humanize",
        "allauth",
        "allauth.account",
        "allauth.socialaccount",
        *logins,
        "allauth.usersessions",
        "csp",
        "ninja",
        "orchestrator.web.apps.WebConfig",
    ]


def _account_settings(settings: WebSettings) -> dict[str, Any]:
    """Returns allauth's settings: people sign in with a code sent by mail, or through a provider; without passwords."""
    providers: dict[str, Any] = {}
    if settings.file.openid:
        providers["openid_connect"] = {
            "OAUTH_PKCE_ENABLED": True,
            "APPS": [
                {
                    "provider_id": each.id,
                    "name": each.name,
                    "client_id": each.client_id,
                    "secret": _read_secret(each.secret_file),
                    "settings": {"server_url": each.server},
                }
                for each in settings.file.openid
            ],
        }
    if settings.file.github:
        github = settings.file.github
        providers["github"] = {
            "SCOPE": ["read:user", "user:email"],
            "APPS": [{"client_id": github.client_id, "secret": _read_secret(github.secret_file)}],
        }
    return {
        "ACCOUNT_ADAPTER": "orchestrator.web.account_adapter.AccountAdapter",
        "ACCOUNT_USER_MODEL_USERNAME_FIELD": None,
        "ACCOUNT_LOGIN_METHODS": {"email"},
        "ACCOUNT_SIGNUP_FIELDS": ["email*"],
        "ACCOUNT_SIGNUP_FORM_CLASS": "orchestrator.web.account_forms.SignupForm",
        "ACCOUNT_EMAIL_VERIFICATION": "mandatory",
        "ACCOUNT_EMAIL_VERIFICATION_BY_CODE_ENABLED": True,
        "ACCOUNT_LOGIN_BY_CODE_ENABLED": True,
        "ACCOUNT_LOGIN_BY_CODE_TIMEOUT": 15 * 60,
        "ACCOUNT_RATE_LIMITS": {CODE_TRIES: "30/m/ip"},
        "ACCOUNT_LOGOUT_ON_GET": False,
        "ACCOUNT_UNIQUE_EMAIL": True,
        "ACCOUNT_SESSION_REMEMBER": True,
        "ACCOUNT_DEFAULT_HTTP_PROTOCOL": urlsplit(settings.address).scheme,
        "ALLAUTH_TRUSTED_PROXY_COUNT": settings.trusted_proxies,
        "SOCIALACCOUNT_PROVIDERS": providers,
        "SOCIALACCOUNT_LOGIN_ON_GET": False,
        "SOCIALACCOUNT_STORE_TOKENS": False,
        "SOCIALACCOUNT_AUTO_SIGNUP": False,
        "SOCIALACCOUNT_ADAPTER": "orchestrator.web.account_adapter.ProviderAdapter",
        "USERSESSIONS_TRACK_ACTIVITY": True,
    }


def _mail(mail: MailSettings | None) -> dict[str, Any]:
    if mail is None:
        backend = "orchestrator.web.mail.LogBackend"
        return {"EMAIL_BACKEND": backend, "DEFAULT_FROM_EMAIL": "sparring@localhost"}
    return {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": mail.host,
        "EMAIL_PORT": mail.port,
        "EMAIL_HOST_USER": mail.user,
        "EMAIL_HOST_PASSWORD": _read_secret(mail.password_file) if mail.password_file else "",
        "EMAIL_USE_TLS": mail.security == "starttls",
        "EMAIL_USE_SSL": mail.security == "tls",
        "EMAIL_TIMEOUT": 20,
        "DEFAULT_FROM_EMAIL": mail.sender,
        "SERVER_EMAIL": mail.sender,
    }


def _database(settings: WebSettings) -> dict[str, Any]:
    if settings.database is None:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(settings.folder / "accounts.sqlite"),
            "CONN_MAX_AGE": CONNECTION_SECONDS,
            "OPTIONS": {
                "timeout": 20,
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    parts = urlsplit(settings.database)
    if parts.scheme != "postgresql":
        raise UsageError("--database names no PostgreSQL; write it like postgresql://USER@HOST/DATABASE")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        # The URL's parameters, such as sslmode or the folder of a socket, are passed to the driver.
        "OPTIONS": {
            "connect_timeout": DATABASE_SECONDS,
            **dict(parse_qsl(parts.query)),
            "options": f"-c search_path={DATABASE_SCHEMA}",
        },
        "CONN_MAX_AGE": CONNECTION_SECONDS,
        "CONN_HEALTH_CHECKS": True,
    }


def _read_secret(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}; {FILE_NAME} names it as the file of a secret") from error
