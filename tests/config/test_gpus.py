"""The table of GPUs agrees with itself, and every way of naming one leads to the right one."""

import tomllib
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config import gpu_table, gpus
from config.gpus import Gpu, UnknownGpu, all_gpus, find, identify, matches, slice_in, slice_of, sold_as, supports_cuda

FACTS = tomllib.loads(Path(gpus.__file__).with_name("gpus.toml").read_text(encoding="utf-8"))
EVERY = pytest.mark.parametrize("gpu", all_gpus(), ids=str)
any_gpu = st.sampled_from(all_gpus())


@EVERY
def test_each_size_is_below_the_one_before(gpu: Gpu) -> None:
    assert 0 < gpu.usable_mib < gpu.nvml_mib <= gpu.gb * 1024
    assert gpu.usable_mib > 0.9 * gpu.gb * 1024 or gpu.gb * 1024 - gpu.usable_mib < 15_000


@EVERY
def test_mig_instances_fit_on_the_card(gpu: Gpu) -> None:
    slices = 4 if gpu.key in {"A30", "RTX-PRO-6000"} else 7
    for profile in gpu.mig:
        assert profile.count * (profile.gb - 0.5) <= gpu.gb, profile
        assert profile.count * profile.compute <= slices, profile
        assert profile.compute <= slices


@EVERY
def test_mig_is_for_data_centre_cards_from_ampere_on(gpu: Gpu) -> None:
    if gpu.mig:
        assert gpu.bf16
        assert gpu.key not in {"A10", "A10G", "A40", "L4", "L40S", "RTX-4090", "RTX-5090"}


@EVERY
def test_bf16_comes_with_compute_capability_8(gpu: Gpu) -> None:
    if gpu.vendor == "nvidia":
        assert gpu.bf16 == (tuple(map(int, gpu.capability.split("."))) >= (8, 0))


@EVERY
def test_every_speed_has_its_source(gpu: Gpu) -> None:
    entry = FACTS["gpus"][gpu.key]
    assert gpu.speed > 0.1
    if gpu.speed_source == "measured":
        assert len(entry["samples"]) == 3
    elif gpu.speed_source != "prior":
        assert gpu.speed_source == f"like {entry['like']}"
        assert gpu.speed == find(entry["like"]).speed
    assert ("samples" in entry) == (gpu.speed_source == "measured")


def test_the_formula_is_within_a_quarter_of_what_was_measured() -> None:
    reference = FACTS["gpus"]["V100-16"]["rate"]
    errors = []
    for gpu in all_gpus():
        if gpu.speed_source == "measured":
            guess = gpu_table.prior(FACTS["gpus"][gpu.key]["rate"]) / gpu_table.prior(reference)
            errors.append(abs(guess / gpu.speed - 1))
    assert len(errors) >= 13
    assert max(errors) < 0.3
    assert sum(errors) / len(errors) < 0.15


@pytest.mark.parametrize(
    ("name", "speed"),
    [
        ("V100-16", 1),
        ("T4", 0.41),
        ("L4", 0.46),
        ("A10G", 0.65),
        ("L40S", 1.27),
        ("A100-80", 2.28),
        ("H100-80", 4.33),
        ("B200", 9.5),
    ],
)
def test_speeds_are_those_of_the_reference(name: str, speed: float) -> None:
    assert find(name).speed == pytest.approx(speed, rel=0.02)


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        *[("T4", 14.56), ("L4", 22.03), ("A10G", 22.04), ("V100-16", 15.77), ("A100-40", 39.25), ("A100-80", 79.14)],
        *[("L40S", 44.39), ("H100-80", 79.1), ("H200", 139.72), ("B200", 178.35), ("MI300X", 191.69)],
        *[("RTX-4090", 23.52), ("RTX-5090", 31.36)],
    ],
)
def test_usable_memory_is_the_lowest_total_seen(name: str, gib: float) -> None:
    assert gpus.usable_bytes(name) / 2**30 == pytest.approx(gib, abs=0.011)
    assert gpus.usable_bytes(name) / 2**30 <= gib
    assert find(name).usable_seen


def test_no_two_gpus_share_a_spelling() -> None:
    spelled = Counter(spelling for gpu in all_gpus() for spelling in gpus._exact(gpu))
    assert [spelling for spelling, times in spelled.items() if times > 1] == []


def test_no_family_or_machine_type_is_listed_twice() -> None:
    sold = Counter((cloud, family.casefold()) for gpu in all_gpus() for cloud, family in gpu.sold)
    types = Counter((each["cloud"], name.casefold()) for each in FACTS["slices"] for name in each["types"])
    assert [name for name, times in (sold + types).items() if times > 1] == []


def test_the_table_has_nothing_that_is_not_read() -> None:
    keys = {key for entry in FACTS["gpus"].values() for key in entry}
    assert keys <= {"vendor", "host", "capability", "memory", "rate", "samples", "like", "mig", "names", "sold"}
    assert {entry["capability"] for entry in FACTS["gpus"].values()} == FACTS["capabilities"].keys()
    assert {entry["mig"] for entry in FACTS["gpus"].values() if "mig" in entry} == FACTS["mig"].keys()
    assert {key for entry in FACTS["gpus"].values() for key in entry["memory"]} == {"gb", "nvml", "usable"}


# ---------------------------------------------------------------- names


@given(
    any_gpu, st.sampled_from(["", "NVIDIA ", "nvidia-", "Tesla ", "GeForce "]), st.sampled_from("- _"), st.booleans()
)
def test_spelling_does_not_matter(gpu: Gpu, vendor: str, separator: str, upper: bool) -> None:
    for name in (gpu.key, *gpu.names):
        spelled = vendor + name.replace("-", separator)
        assert find(spelled.upper() if upper else spelled.lower()) == gpu
        assert gpu in matches(spelled)


@given(any_gpu)
def test_a_beginning_of_a_key_matches_all_that_begin_so(gpu: Gpu) -> None:
    first = gpu.key.split("-")[0]
    if any(character.isdigit() for character in first):
        assert gpu in matches(first)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100-80"),
        ("nvidia-a100-80gb", "A100-80"),
        ("NVIDIA A100 80GB PCIe", "A100-80-PCIe"),
        ("A100 40GB", "A100-40"),
        ("Tesla V100-SXM2-16GB", "V100-16"),
        ("NVIDIA H100 80GB HBM3", "H100-80"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("NVIDIA GH200 480GB", "GH200-96"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "RTX-4070TiS"),
        ("Quadro RTX 6000", "RTX-6000"),
        ("RTX PRO Server 6000", "RTX-PRO-6000"),
        ("A16 16GB", "A16"),
        ("l4-24gb", "L4"),
        ("NVIDIA T4 * 1/4", "T4-1/4"),
        ("A10-1/6", "A10-1/6"),
    ],
)
def test_names_that_people_and_clouds_use(name: str, key: str) -> None:
    assert find(name).key == key


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("A100", "A100-40 A100-80 A100-80-PCIe"),
        ("A100-80", "A100-80 A100-80-PCIe"),
        ("A100-80GB", "A100-80 A100-80-PCIe"),
        ("A100-SXM4", "A100-40 A100-80"),
        ("V100", "V100-16 V100-32"),
        ("H100", "H100-80 H100-80-PCIe H100-NVL"),
        ("L4", "L4"),
        ("A10", "A10"),
        ("RTX 4090", "RTX-4090 RTX-4090-48"),
        ("RTX 4070", "RTX-4070"),
        ("RTX", ""),
        ("nonsense", ""),
    ],
)
def test_a_name_may_match_several(name: str, keys: str) -> None:
    assert " ".join(gpu.key for gpu in matches(name)) == keys


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("A100", "`A100` can be A100-40, A100-80 or A100-80-PCIe: say which"),
        ("H10O", "did you mean `H100`?"),
        ("L40SS", "did you mean `L40S`?"),
        ("qqqq", "config/gpus.toml"),
        ("", "config/gpus.toml"),
    ],
)
def test_a_name_that_means_none_says_what_to_write(name: str, sentence: str) -> None:
    with pytest.raises(UnknownGpu, match=sentence.replace("?", r"\?")):
        find(name)


def _found(name: str) -> Gpu | None:
    try:
        return find(name)
    except UnknownGpu:
        return None


@given(st.one_of(st.text(max_size=20), st.from_regex(r"[TL]4[- *]{1,2}[0-9]{1,2}/[0-9]{1,2}", fullmatch=True)))
def test_a_name_is_found_whenever_it_matches_one_gpu(name: str) -> None:
    choices, found = matches(name), _found(name)
    assert found in choices if found else len(choices) != 1


@pytest.mark.parametrize(
    ("name", "mib", "key"),
    [
        ("A100", 40960, "A100-40"),
        ("A100", 81920, "A100-80"),
        ("A10G", 22888, "A10G"),
        ("L4", 22888, "L4"),
        ("L40S", 45776, "L40S"),
        ("H200", 144384, "H200"),
        ("B300", 275046, "B300"),
        ("V100", 32768, "V100-32"),
    ],
)
def test_a_cloud_s_name_and_size_are_enough(name: str, mib: int, key: str) -> None:
    assert identify(name, mib).key == key


def test_a_size_that_fits_no_card_is_refused() -> None:
    with pytest.raises(UnknownGpu, match="no A10 has 4GB"):
        identify("A10", 4096)


# ---------------------------------------------------------------- clouds and parts


def test_gn6i_is_a_t4_whatever_articles_say() -> None:
    assert sold_as("aliyun", "gn6i") == find("T4")
    assert sold_as("aliyun", "gn6v") == find("V100-16")
    assert sold_as("aws", "P4DE") == find("A100-80")
    assert sold_as("gcp", "nvidia-tesla-a100") == find("A100-40")
    assert sold_as("aws", "m5") is None


@pytest.mark.parametrize(
    ("cloud", "machine_type", "key", "gib"),
    [
        ("azure", "standard_nv6ads_a10_v5", "A10-1/6", 4),
        ("aws", "g6f.large", "L4-1/8", 2.8),
        ("aliyun", "ecs.vgn6i-m4-vws.xlarge", "T4-1/4", 3805 / 1024),
        ("aliyun", "ecs.vgn5i-m1.large", "P4-1/8", 951 / 1024),
        ("tencent", "GN7.LARGE20", "T4-1/4", 4),
        ("aliyun", "ecs.vgn7i-vws-m24.7xlarge", "A10", 24),
    ],
)
def test_machines_with_a_part_of_a_gpu_are_known(cloud: str, machine_type: str, key: str, gib: float) -> None:
    part = slice_in(cloud, machine_type)
    assert part is not None
    assert part.key == key
    assert 0.85 * gib <= part.usable / 2**30 <= gib


def test_other_machines_hold_no_part() -> None:
    assert slice_in("aws", "g6.xlarge") is None


@given(any_gpu, st.fractions(Fraction(1, 64), 1, max_denominator=64))
def test_parts_never_sum_to_more_than_the_whole(gpu: Gpu, share: Fraction) -> None:
    part = slice_of(gpu, share)
    for name in ("usable_mib", "nvml_mib", "gb", "speed", "bandwidth_gb_s", "single_tflops"):
        assert getattr(part, name) * (1 / share) <= getattr(gpu, name) * (1 + 1e-9)
    assert part.usable_mib <= part.nvml_mib
    assert slice_of(gpu, float(share)) == part
    assert find(part.key) == part


@pytest.mark.parametrize("share", [0, 1.5, -0.25])
def test_a_part_is_above_nothing_and_at_most_the_whole(share: float) -> None:
    with pytest.raises(ValueError, match="fraction"):
        slice_of(find("T4"), share)


def test_a_part_of_a_part_is_refused() -> None:
    with pytest.raises(ValueError, match="fraction"):
        slice_of(find("T4-1/2"), "1/2")


# ---------------------------------------------------------------- CUDA


@pytest.mark.parametrize(
    ("name", "cuda", "code"),
    [
        ("V100-16", "12.9", None),
        ("V100-16", "13.0", "gpu.cuda_too_new"),
        ("K80", "11.8", None),
        ("K80", "12.0", "gpu.cuda_too_new"),
        ("T4", "13.2", None),
        ("T4", "9.0", None),
        ("T4", "8.0", "gpu.cuda_too_old"),
        ("RTX-4090", "11.0", None),
        ("RTX-4090", "10.2", "gpu.cuda_too_old"),
        ("H100-80", "11.7", "gpu.cuda_too_old"),
        ("B200", "12.6", "gpu.cuda_too_old"),
        ("B300", "12.8", None),
        ("MI300X", "12.8", "gpu.no_cuda"),
    ],
)
def test_cuda_has_a_first_and_a_last_version_for_each_gpu(name: str, cuda: str, code: str | None) -> None:
    reason = supports_cuda(find(name), cuda)
    assert (reason and reason.code) == code
    if reason:
        assert not str(reason).startswith("gpu."), "it has a sentence"
        assert "unknown" not in str(reason)


@EVERY
def test_every_nvidia_gpu_runs_its_own_first_and_last_cuda(gpu: Gpu) -> None:
    for cuda in filter(None, (gpu.first_cuda, gpu.last_cuda)):
        assert supports_cuda(gpu, cuda) is None
        assert gpus.min_driver(cuda) if int(cuda.split(".")[0]) >= 11 else True


def test_drivers_and_bad_versions() -> None:
    assert (gpus.min_driver("13.0"), gpus.min_driver("12"), gpus.min_driver("11.8")) == (580, 525, 450)
    with pytest.raises(ValueError, match="no driver"):
        gpus.min_driver("99.0")
    with pytest.raises(ValueError, match=r"12\.8"):
        supports_cuda(find("T4"), "cu128")
