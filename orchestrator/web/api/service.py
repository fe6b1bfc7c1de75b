"""The API object with its version, its routes and its description in openapi.json."""

from ninja import NinjaAPI

from orchestrator.web.api import (
    conflict_routes,
    device_routes,
    problems,
    public_routes,
    team_routes,
    upload_routes,
    week_routes,
)

api = NinjaAPI(
    title="Sparring",
    version="1.0.0",
    description="What programs can do in this contest. Send a token as `Authorization: Bearer spar_...`.",
    docs_url=None,  # django-ninja's documentation page loads scripts from another site
    urls_namespace="api",
)
for _router in (
    public_routes.router,
    team_routes.router,
    upload_routes.router,
    device_routes.router,
    week_routes.router,
    conflict_routes.router,
):
    api.add_router("", _router)
problems.register(api)
