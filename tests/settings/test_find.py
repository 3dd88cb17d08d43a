"""Which settings file and which state folder are taken; reading them is not tested here."""

import pytest

from bascule.settings import SettingsError, find_config, state_folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder without settings, and a configuration folder that exists nowhere else."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "xdg" / "bascule").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def test_the_flag_wins_then_the_variable_then_here_then_the_configuration_folder(folder):
    flag, variable = folder / "flag.toml", folder / "variable.toml"
    here, configured = folder / "here" / "bascule.toml", folder / "xdg" / "bascule" / "bascule.toml"
    for file in (flag, variable, here, configured):
        file.write_text("")
    environ = {"BASCULE_CONFIG": str(variable)}
    assert find_config(flag, environ) == flag
    assert find_config(None, environ) == variable
    assert find_config(None, {}) == here
    assert find_config(None, {"BASCULE_CONFIG": ""}) == here
    here.unlink()
    assert find_config(None, {}) == configured


@pytest.mark.parametrize("by", ["--config", "BASCULE_CONFIG"])
def test_what_was_named_and_is_not_there_is_never_replaced_by_another_file(folder, by):
    (folder / "here" / "bascule.toml").write_text("")
    gone = folder / "gone.toml"
    named = (gone, {}) if by == "--config" else (None, {"BASCULE_CONFIG": str(gone)})
    with pytest.raises(SettingsError, match=f"{by}.*bascule init"):
        find_config(*named)


def test_without_any_file_the_error_says_which_command_writes_one(folder):
    with pytest.raises(SettingsError, match="`bascule init`"):
        find_config(None, {})


def test_the_state_folder_is_the_variable_else_the_platforms(folder, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "xdg-state"))
    assert state_folder({"BASCULE_STATE": "relative"}) == folder / "here" / "relative"
    assert state_folder({"BASCULE_STATE": ""}) == folder / "xdg-state" / "bascule"
    assert state_folder({}) == folder / "xdg-state" / "bascule"
