from __future__ import annotations

from pathlib import Path

import pytest

from millstream.config import DEMO_MODEL, ServerSettings, load, load_settings
from millstream.errors import ConfigError


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No `millstream.toml` of whoever runs the tests takes part."""
    monkeypatch.chdir(tmp_path)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "given.toml"
    path.write_text(text)
    return path


def message(path: Path | None, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as raised:
        load(path, environ=environ or {})
    return str(raised.value)


def test_without_any_source_the_demo_model_is_served_on_loopback_by_one_worker() -> None:
    settings = load_settings(environ={})

    assert (settings.server.host, settings.server.port, settings.server.workers) == (
        "127.0.0.1",
        8000,
        1,
    )
    assert {name: engine.kind for name, engine in settings.engines.items()} == {"local": "torch"}
    assert settings.engines["local"].model == DEMO_MODEL
    assert [route.engine for route in settings.models[DEMO_MODEL].routes] == ["local"]


def test_command_line_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    path = write(tmp_path, "[server]\nport = 1\nworkers = 2\ndrain_seconds = 3")
    environ = {"MILLSTREAM__SERVER__PORT": "4", "MILLSTREAM__SERVER__WORKERS": "5"}

    server = load_settings(path, {("server", "port"): (6, "--port")}, environ).server

    assert (server.port, server.workers, server.drain_seconds) == (6, 5, 3.0)
    assert server.max_connections == 4096


def test_the_environment_can_name_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "[server]\nport = 1")

    assert load_settings(environ={"MILLSTREAM_CONFIG": str(path)}).server.port == 1


def test_a_file_named_by_the_caller_beats_the_one_of_the_environment(tmp_path: Path) -> None:
    path = write(tmp_path, "[server]\nport = 1")

    assert load_settings(path, environ={"MILLSTREAM_CONFIG": "/nowhere"}).server.port == 1


def test_millstream_toml_in_the_working_directory_is_found(tmp_path: Path) -> None:
    (tmp_path / "millstream.toml").write_text("[server]\nport = 7")

    assert load_settings(environ={}).server.port == 7


def test_without_models_every_engine_serves_its_model_under_its_own_name(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '[engines.a]\nmodel = "/models/Big-7B.gguf"\n[engines.b]\nthreads = 1\n[engines.c]',
    )
    environ = {"MILLSTREAM__ENGINES__C__MODEL": "/models/Small-3.1/"}

    models = load_settings(path, environ=environ).models

    assert {name: model.routes[0].engine for name, model in models.items()} == {
        "Big-7B": "a",
        DEMO_MODEL: "b",
        "Small-3.1": "c",
    }


def test_a_variable_reaches_a_model_whose_name_variables_cannot_spell() -> None:
    environ = {"MILLSTREAM__MODELS__SMOLLM2_135M_INSTRUCT__MAX_TOKENS": "7"}

    assert load_settings(environ=environ).models[DEMO_MODEL].max_tokens == 7


def test_a_variable_can_hold_a_toml_value() -> None:
    environ = {
        "MILLSTREAM__LIMITS__REQUESTS": "{ per_second = 5, burst = 9 }",
        "MILLSTREAM__MODELS__CHAT": '{ routes = [{ engine = "local" }] }',
    }

    settings = load_settings(environ=environ)

    assert settings.limits.requests is not None
    assert (settings.limits.requests.per_second, settings.limits.requests.burst) == (5, 9)
    assert settings.models["chat"].routes[0].engine == "local"


def test_burst_is_one_second_of_requests_unless_set() -> None:
    limits = load_settings(environ={"MILLSTREAM__LIMITS__REQUESTS__PER_SECOND": "5"}).limits

    assert limits.requests is not None
    assert limits.requests.capacity == 5


def test_all_problems_are_told_at_once_each_with_origin_key_and_limit(tmp_path: Path) -> None:
    path = write(tmp_path, "[server]\nport = 70000\nprot = 1\n[engines.local]\nmax_batch = 0")

    text = message(path, {"MILLSTREAM__SERVER__WORKERS": "two"})

    assert sorted(text.splitlines()) == sorted(
        [
            f"{path}: server.port: must be less than or equal to 65535, not 70000",
            f"{path}: server.prot: unknown key; did you mean `port`?",
            f"{path}: engines.local.max_batch: must be greater than or equal to 1, not 0",
            "MILLSTREAM__SERVER__WORKERS: server.workers: must be a whole number, not 'two'",
        ]
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[serve]\nport = 1", "serve: unknown key; did you mean `server`?"),
        ("[engines.local]\nthread = 1", "engines.local.thread: unknown key; did you mean"),
        (
            '[models."gpt-4.1"]\nroutes = [{ engin = "local" }]',
            'models."gpt-4.1".routes[0].engin: unknown key; did you mean `engine`?',
        ),
        (
            "[limits.tokens]\nlimit = 1\nwindow_ms = 100\nwindow = 1",
            "limits.tokens.window: unknown key; did you mean `window_ms`?",
        ),
        ("[streams]\nzzz = 1", "streams.zzz: unknown key; known are `blocked_send_seconds`, "),
        ("[limits.tokens]\nlimit = 1", "limits.tokens.window_ms: is required"),
        ("server = 1", "server: must be a table, not 1"),
        ("[server]\nport = true", "server.port: must not be true or false"),
        ("[server]\nport = 1.5", "server.port: must be a whole number, not 1.5"),
        ("engines = {}", "engines: must not be empty"),
        ('[engines.a]\nkind = "vllm"', "engines.a.kind: must be 'torch', not 'vllm'"),
        ('[engines."a b"]', 'engines."a b": must match pattern'),
        (
            '[models.m]\nroutes = [{ engine = "local" }, { engine = "local" }]',
            "models.m.routes: exactly one route is supported for now, there are 2",
        ),
        (
            '[models.m]\nroutes = [{ engine = "locl" }]',
            "models.m.routes[0].engine: there is no engine `locl`; did you mean `local`?",
        ),
    ],
)
def test_a_mistake_is_named_with_file_and_key(tmp_path: Path, text: str, expected: str) -> None:
    path = write(tmp_path, text)

    assert f"{path}: {expected}" in message(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("server.workers", "0"),
        ("server.port", "-1"),
        ("server.drain_seconds", "-0.1"),
        ("server.max_body_bytes", "1"),
        ("limits.concurrency", "0"),
        ("streams.max_records", "1"),
        ("engines.local.kv_tokens", "1"),
        ("engines.local.device", "tpu"),
    ],
)
def test_a_value_out_of_bounds_is_refused(key: str, value: str) -> None:
    variable = "MILLSTREAM__" + key.replace(".", "__").upper()

    assert message(None, {variable: value}).startswith(f"{variable}: {key}: must ")


@pytest.mark.parametrize(
    "variable",
    [
        "MILLSTREAM__LIMITS__CONCURRENCY",
        "MILLSTREAM__LIMITS__REQUESTS__PER_SECOND",
        "MILLSTREAM__MODELS__SMOLLM2_135M_INSTRUCT__LIMITS__CONCURRENCY",
    ],
)
def test_limits_with_several_workers_are_refused_naming_both_settings(variable: str) -> None:
    text = message(None, {variable: "5", "MILLSTREAM__SERVER__WORKERS": "3"})

    limit = "requests" if "REQUESTS" in variable else "concurrency"
    assert text.startswith(variable)
    assert f"limits.{limit}" in text
    assert "server.workers = 3 would grant 3 times" in text


def test_limits_with_one_worker_and_workers_without_limits_are_fine() -> None:
    assert load_settings(environ={"MILLSTREAM__LIMITS__CONCURRENCY": "5"}).limits.concurrency == 5
    assert load_settings(environ={"MILLSTREAM__SERVER__WORKERS": "3"}).server.workers == 3


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[server\n", "is not TOML"),
        (b"a = '\xff'", "is not UTF-8"),
        (b"a." * 5_000 + b"a = 1", "is not TOML: nested too deeply"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(
    tmp_path: Path, content: bytes | None, expected: str
) -> None:
    path = tmp_path / "broken.toml"
    if content is not None:
        path.write_bytes(content)

    assert message(path).startswith(f"{path}: {expected}")


def test_a_variable_that_is_no_toml_value_is_named() -> None:
    variable = "MILLSTREAM__LIMITS__REQUESTS"

    assert message(None, {variable: "{ per_second"}).startswith(f"{variable}: is not a TOML value")
    assert "nested too deeply" in message(None, {variable: "[" * 100_000})


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings(environ={}).server.port = 1


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.org", False),
    ],
)
def test_only_addresses_of_this_machine_count_as_loopback(host: str, loopback: bool) -> None:
    assert ServerSettings(host=host).loopback is loopback


@pytest.mark.parametrize("place", ["streams", "models.m.streams", "tenants.t.streams"])
def test_resumption_by_default_with_several_workers_needs_a_store_that_they_share(
    tmp_path: Path, place: str
) -> None:
    text = f"""
[engines.local]
[models.m]
routes = [{{ engine = "local" }}]
[{place}]
resumable_default = true
"""
    workers = {"MILLSTREAM__SERVER__WORKERS": "2"}
    told = message(write(tmp_path, text), workers)
    assert f"{place}.resumable_default" in told
    assert "store.kind" in told
    assert load_settings(write(tmp_path, text), environ={}).server.workers == 1
    shared = write(tmp_path, text + '[store]\nkind = "valkey"\n')
    assert load_settings(shared, environ=workers).store.kind == "valkey"


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ('models = ["m", "chta"]', "tenants.acme.models[1]"),
        ("model_limits.chta = { concurrency = 1 }", "tenants.acme.model_limits.chta"),
    ],
)
def test_a_tenant_names_models_that_there_are(tmp_path: Path, table: str, key: str) -> None:
    path = tmp_path / "tenants.toml"
    models = "".join(f'[models.{name}]\nroutes = [{{ engine = "local" }}]\n' for name in "mn")
    models += '[models.chat]\nroutes = [{ engine = "local" }]\n'
    path.write_text(f"{models}[tenants.acme]\n{table}\n")
    with pytest.raises(ConfigError) as refused:
        load_settings(path, environ={})
    assert str(refused.value) == (f"{path}: {key}: there is no model `chta`; did you mean `chat`?")
