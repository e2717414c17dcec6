import csv
import gzip
import io
import json
import pickle
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knockout import tabular
from knockout.analysis.external.runs import Imported, RunColumns, read_runs
from knockout.analysis.external.statuses import STATES, WORDS
from knockout.analysis.external.table import plain
from knockout.errors import UserError
from knockout.strict import FaultsError

Write = Callable[..., Path]

WANDB = """\
"Name","State","Notes","User","Tags","Created","Runtime","Group","seed","val/accuracy"
"brisk-sun-1","finished","-","ada","","2026-01-01T00:00:00.000Z","61","baseline","1","0.81"
"brisk-sun-2","finished","-","ada","","2026-01-01T00:00:00.000Z","61","baseline","2","0.83"
"brisk-sun-3","crashed","-","ada","a, b","2026-01-01T00:00:00.000Z","12","no_positions","1","0.52"
"brisk-sun-4","failed","-","ada","","2026-01-01T00:00:00.000Z","3","no_positions","2",""
"brisk-sun-5","killed","-","ada","","2026-01-01T00:00:00.000Z","3","no_scale","1","0.6"
"brisk-sun-6","running","-","ada","","2026-01-01T00:00:00.000Z","3","no_scale","2","0.4"
"brisk-sun-7","finished","-","ada","","2026-01-01T00:00:00.000Z","60","no_scale","3","NaN"
"""

MLFLOW = """\
run_id,experiment_id,status,artifact_uri,start_time,end_time,metrics.accuracy,params.seed,params.variant,tags.mlflow.runName
a1,0,FINISHED,/m/a1,2026-01-01,2026-01-01,0.81,1,baseline,sly-ox-1
a2,0,FAILED,/m/a2,2026-01-01,2026-01-01,,1,None,sly-ox-2
a3,0,KILLED,/m/a3,2026-01-01,2026-01-01,0.5,2,None,sly-ox-3
a4,0,RUNNING,/m/a4,2026-01-01,,0.3,3,None,sly-ox-4
a5,0,SCHEDULED,/m/a5,2026-01-01,,,4,None,sly-ox-5
a6,0,FINISHED,/m/a6,2026-01-01,2026-01-01,,5,None,sly-ox-6
a7,0,FINISHED,/m/a7,2026-01-01,2026-01-01,inf,6,None,sly-ox-7
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """`write(text)` writes a file and returns its path."""

    def written(text: str | bytes, name: str = "runs.csv", *, encoding: str = "utf-8") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return path

    return written


def runs(*rows: str, header: str = "variant,seed,accuracy") -> str:
    return "\n".join([header, *rows]) + "\n"


def rows(found: Imported, *columns: str) -> list[tuple[Any, ...]]:
    return list(found.frame[list(columns)].itertuples(index=False, name=None))


def refused(path: Path, columns: RunColumns | None = None, *, statuses: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(FaultsError) as caught:
        read_runs(path, columns or RunColumns(), statuses=statuses)
    assert isinstance(caught.value, UserError)
    assert isinstance(caught.value, ValueError)
    return [str(fault).removeprefix(f"{path}: ") for fault in caught.value.faults]


# --- Names --------------------------------------------------------------------------------------------------------


NAMES = [
    "NA",
    "None",
    "null",
    "007",
    "7",
    "nan",
    "NaN",
    "<b>",
    "=1+1",
    "@SUM(A1)",
    "-",
    "true",
    'a "quoted", one',
    "a\nb",
]


def test_any_text_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    with path.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows([["variant", "seed", "accuracy"], *([name, name, "0.5"] for name in NAMES)])
    found = read_runs(path, RunColumns())
    assert rows(found, "variant", "seed") == [(name, name) for name in NAMES]
    assert [str(d) for d in found.frame.dtypes] == ["str", "str", "float64", "str", "Int64", "int64"]
    assert list(found.frame.columns) == ["variant", "seed", "value", "status", "count", "row"]
    assert found.frame["row"].tolist() == [*range(2, 2 + len(NAMES))]
    assert found.notes == ()


def test_blanks_around_a_name_are_stripped_and_case_is_kept(write: Write) -> None:
    found = read_runs(write(runs(" Base ,\t01 , .5 ", "base,1,.5", header=" variant, seed ,accuracy")), RunColumns())
    assert rows(found, "variant", "seed", "value") == [("Base", "01", 0.5), ("base", "1", 0.5)]


def test_an_empty_name_is_told_with_its_line(write: Write) -> None:
    told = refused(write(runs("a,1,.5", ",2,.5", 'a,"  ",.5', '"two\nlines",3,x', ",4,.5")))
    assert [t.splitlines()[0] for t in told] == [
        'line 3: variant ("variant") is empty',
        'line 7: variant ("variant") is empty',
        'line 4: seed ("seed") is empty',
        'line 5: accuracy is "x", which is no number',
    ]


def test_several_seed_columns_are_one_seed(write: Write) -> None:
    path = write(runs("a,1,sst2,.5", "a,1,imdb,.6", header="variant,seed,data,accuracy"))
    assert read_runs(path, RunColumns(seed=("seed", "data"))).frame["seed"].tolist() == ["1 / sst2", "1 / imdb"]
    assert read_runs(path, RunColumns(seed=("data", "seed"))).frame["seed"].tolist() == ["sst2 / 1", "imdb / 1"]
    (told,) = refused(path)
    assert told.startswith('lines 2, 3 are all "a" with seed "1", and all ended')
    assert "--seed" in told


def test_seeds_that_join_to_one_text_are_refused(write: Write) -> None:
    path = write(runs("a,x / y,z,.5", "b,x,y / z,.6", header="variant,seed,data,accuracy"))
    (told,) = refused(path, RunColumns(seed=("seed", "data")))
    assert told.startswith('seed: the seeds of lines 2, 3 differ, and joined both are "x / y / z"')


# --- The form of files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_separators_encodings_and_line_ends(write: Write, separator: str, encoding: str, end: str) -> None:
    text = runs('"a,b;c\td",1,0.825', "größe 你好,2,0.5").replace('"a,b;c\td"', "@").replace(",", separator)
    text = text.replace("@", '"a,b;c\td"').replace("\n", end)
    found = read_runs(write(text, encoding=encoding), RunColumns())
    assert rows(found, "variant", "seed", "value", "row") == [("a,b;c\td", "1", 0.825, 2), ("größe 你好", "2", 0.5, 3)]


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_excels_unicode_text_in_both_byte_orders(write: Write, codec: str) -> None:
    path = write("\ufeffvariant\tseed\taccuracy\r\na\t1\t0,5\r\n".encode(codec), "runs.txt")
    assert read_runs(path, RunColumns()).frame["value"].tolist() == [0.5]


def test_the_header_decides_and_not_the_cells(write: Write) -> None:
    """csv.Sniffer takes the semicolon here, for it stands beside quotation marks."""
    text = runs("no;'scale';no,1,.5")
    assert csv.Sniffer().sniff(text, delimiters=",;\t").delimiter == ";"
    assert read_runs(write(text), RunColumns()).frame["variant"].tolist() == ["no;'scale';no"]


def test_the_columns_that_are_asked_for_decide_between_separators(write: Write) -> None:
    path = write(runs("a;1;0,5;x", header='variant;seed;accuracy;"mean, sd, n, min, max"'))
    assert rows(read_runs(path, RunColumns()), "variant", "value") == [("a", 0.5)]
    path = write(runs("a;1;0,5;x", header="variant;seed;accuracy;mean, sd, n, min, max"))
    assert rows(read_runs(path, RunColumns()), "variant", "value") == [("a", 0.5)]


def test_a_header_that_can_be_read_in_two_ways_is_refused(write: Write) -> None:
    (told,) = refused(write(runs("a,1;2", header="variant,seed;accuracy")))
    assert told.startswith("the header line splits at a comma and a semicolon")


def test_blank_lines_are_no_rows_and_count_as_lines(write: Write) -> None:
    found = read_runs(write("\n" + runs("", "a,1,.5", ",,", "b,1,.5", ", ,")), RunColumns())
    assert rows(found, "variant", "row") == [("a", 4), ("b", 6)]
    assert found.notes == ("2 lines of separators only left out (lines 5, 7).",)


def test_rows_that_do_not_fit_the_header(write: Write) -> None:
    told = refused(write(runs("a,1,.5", "a,2", "no scale, no bias,1,.5")))
    assert [t.splitlines()[0] for t in told] == [
        "line 3: has 2 cells, the header 3",
        "line 4: has 4 cells, the header 3",
    ]
    assert "a text with a comma needs quotation marks" in told[1]


def test_many_faults_of_one_kind_are_counted(write: Write) -> None:
    told = refused(write(runs("b,1,.5", *(f",{i},.5" for i in range(40)))))
    assert len(told) == 11
    assert told[-1] == "30 more rows without variant"


@pytest.mark.parametrize("cell", ['"open', '"closed" and more'])
def test_quotation_marks_that_do_not_close(write: Write, cell: str) -> None:
    (told,) = refused(write(runs("a,1,.5", f"{cell},2,.5", "c,3,.5")))
    assert told.startswith("line 3: no CSV (")


def workbook() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    return buffer.getvalue()


ROW = runs("a,1,.5")


@pytest.mark.parametrize(
    ("name", "raw", "says"),
    [
        ("empty.csv", b"", "is empty"),
        ("blank.csv", b"\n\n", "holds blank lines only"),
        ("mark.csv", b"\xef\xbb\xbf", "holds blank lines only"),
        ("header.csv", b"variant,seed,accuracy\n", "holds a header and no rows"),
        ("noise.csv", bytes(range(256)), "is a binary file"),
        ("book.xlsx", workbook(), "is a zip archive or a workbook: unpack it, or save the sheet as CSV (UTF-8)"),
        (
            "old.xls",
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500),
            "is an old Excel workbook: save the sheet as CSV",
        ),
        ("runs.csv.gz", gzip.compress(ROW.encode(), mtime=0), "is compressed with gzip: unpack it first (gunzip)"),
        ("runs.json", b'[{"variant": "a"}]', "is JSON"),
        ("runs.jsonl", b'{"variant": "a"}\n', "is JSON"),
        ("named.csv", json.dumps({"variant": {"0": "a"}}).encode(), "is JSON"),
        ("runs.pkl", pickle.dumps({"variant": ["a"]}), "is a pickle, which is never read"),
        ("named.pickle.csv", pickle.dumps({"variant": ["a"] * 300}), "is a pickle, which is never read"),
        (
            "latin.csv",
            ROW.replace("a,1", "größe,1").encode("latin-1"),
            'no UTF-8 at byte 24 (line 2): save it as "CSV UTF-8"',
        ),
        ("half.csv", ROW.encode("utf-16")[:-1], "no UTF-16 at byte"),
        ("wide.csv", ROW.encode("utf-32"), "is UTF-32"),
        ("runs.parquet", ROW.encode(), "no Parquet file that can be read"),
        ("short.parquet", b"PAR1" + bytes(40), "no Parquet file that can be read"),
    ],
)
def test_what_is_no_table_is_told_in_one_line(write: Write, name: str, raw: bytes, says: str) -> None:
    (told,) = refused(write(raw, name))
    assert told.startswith(says)
    assert "\n" not in told


def test_a_folder_and_a_file_that_is_not_there(write: Write, tmp_path: Path) -> None:
    write(ROW, "ablation.csv")
    assert refused(tmp_path) == ["is a folder: name a CSV or Parquet file in it"]
    assert refused(tmp_path / "ablations.csv") == ['no such file (did you mean "ablation.csv"?)']
    assert refused(tmp_path / "no" / "runs.csv") == ["no such file"]
    assert refused(tmp_path / ("x" * 300 + ".csv"))[0].startswith("no")


def test_a_file_that_is_too_large_is_not_read(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular, "RUNS", replace(tabular.RUNS, file_bytes=10))
    assert refused(write(ROW)) == [f"{len(ROW)} bytes, where a file may have 10"]


def test_a_pickle_is_never_loaded(write: Write, tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "touched",))

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for name in ("runs.csv", "runs.parquet", "runs.pkl"):
            assert refused(write(pickle.dumps(Attack(), protocol=protocol), name))
    assert not (tmp_path / "touched").exists()


# --- Columns ------------------------------------------------------------------------------------------------------


def test_all_missing_columns_are_told_with_the_nearest_and_the_option(write: Write) -> None:
    columns = RunColumns(variant="varaint", seed=("sed", "data"), metric="accuracy", status="stat", count="texts")
    told = refused(write(runs("a,1,.5,ok", header="variant,seed,val/accuracy,status")), columns)
    assert told == [
        f"{role}: no column {name}\n"
        f'    allowed: "variant", "seed", "val/accuracy", "status"; name the right one with --{role}'
        for role, name in [
            ("variant", '"varaint" (did you mean "variant"?)'),
            ("seed", '"sed" (did you mean "seed"?)'),
            ("seed", '"data"'),
            ("metric", '"accuracy" (did you mean "val/accuracy"?)'),
            ("status", '"stat" (did you mean "status"?)'),
            ("count", '"texts"'),
        ]
    ]


def test_at_most_thirty_columns_are_listed(write: Write) -> None:
    header = ",".join(f"c{i}" for i in range(40))
    told = refused(write(runs(",".join("0" * 40), header=header)))
    assert all('"c29" and 10 more' in t and '"c30"' not in t for t in told)


def test_a_header_of_one_column_says_what_separates(write: Write) -> None:
    told = refused(write("variant|seed|accuracy\na|1|.5\n"))
    assert all("a comma, a semicolon or a tab separates columns" in t for t in told)


def test_a_column_that_stands_twice_is_refused_if_it_is_needed(write: Write) -> None:
    found = read_runs(write(runs("a,1,.5,p,q", header="variant,seed,accuracy,note,note")), RunColumns())
    assert found.frame["value"].tolist() == [0.5]
    (told,) = refused(write(runs("a,1,.5,.6", header="variant,seed,accuracy,accuracy")))
    assert told.startswith('metric: 2 columns are called "accuracy" (columns 3, 4)')


def test_columns_that_cannot_be_meant(write: Write) -> None:
    path = write(ROW)
    with pytest.raises(FaultsError, match='metric: column "seed" is already named for seed'):
        read_runs(path, RunColumns(metric="seed"))
    with pytest.raises(FaultsError, match="got 'seed'\n    allowed: a tuple"):
        read_runs(path, RunColumns(seed="seed"))  # type: ignore[arg-type]  # what is tested
    with pytest.raises(FaultsError, match="a tuple"):
        read_runs(path, RunColumns(seed=()))


def test_the_index_that_pandas_writes_is_no_status(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    pd.DataFrame({"variant": ["a"], "seed": [1], "accuracy": [0.5]}).to_csv(path)
    assert rows(read_runs(path, RunColumns(status="", count="")), "status", "row") == [("finished", 2)]


# --- Statuses -----------------------------------------------------------------------------------------------------


def test_an_export_of_wandb(write: Write) -> None:
    columns = RunColumns(variant="Group", metric="val/accuracy", status="State")
    found = read_runs(write(WANDB), columns)
    assert rows(found, "variant", "seed", "status") == [
        ("baseline", "1", "finished"),
        ("baseline", "2", "finished"),
        ("no_positions", "1", "crashed"),
        ("no_positions", "2", "crashed"),
        ("no_scale", "1", "killed"),
        ("no_scale", "2", "missing"),
        ("no_scale", "3", "diverged"),
    ]
    np.testing.assert_array_equal(found.frame["value"], [0.81, 0.83, *[np.nan] * 5])
    assert found.notes == (
        "1 run finished with a value that is not a number: it counts as diverged (line 8).",
        "3 runs that did not finish have a value of val/accuracy, which is not used (lines 4, 6, 7).",
    )


def test_the_state_of_an_export_is_not_overlooked(write: Write) -> None:
    """Else the last value of a crashed run would be a result."""
    columns = RunColumns(variant="Group", metric="val/accuracy")
    (told,) = refused(write(WANDB), columns)
    assert told.startswith('status: the column "State" says "crashed" (lines 4, 5, 6, 7), and is not read')
    assert '--status "State"' in told
    unread = read_runs(write(WANDB), RunColumns(variant="Group", metric="val/accuracy", status=""))
    assert unread.frame["status"].tolist() == [*["finished"] * 3, "missing", *["finished"] * 2, "missing"]


def test_a_state_that_is_no_status_is_let_alone(write: Write) -> None:
    path = write(runs("a,1,.5,Ohio", header="variant,seed,accuracy,State"))
    assert read_runs(path, RunColumns()).frame["status"].tolist() == ["finished"]


def test_an_export_of_mlflow(write: Write) -> None:
    columns = RunColumns(variant="params.variant", seed=("params.seed",), metric="metrics.accuracy")
    found = read_runs(write(MLFLOW), columns)
    assert rows(found, "variant", "status") == [
        ("baseline", "finished"),
        ("None", "crashed"),
        ("None", "killed"),
        ("None", "missing"),
        ("None", "missing"),
        ("None", "missing"),
        ("None", "diverged"),
    ]
    assert found.notes[0] == "1 run finished with a value that is not a number: it counts as diverged (line 8)."
    assert found.notes[1] == "1 run finished without metrics.accuracy: it counts as missing (line 7)."
    assert "pandas and MLflow write NaN as a blank" in found.notes[-1]


def test_mlflow_writes_nan_as_a_blank() -> None:
    """What the note says of `search_runs().to_csv()`."""
    assert pd.DataFrame({"metrics.accuracy": [np.nan, np.inf]}).to_csv(index=False) == 'metrics.accuracy\n""\ninf\n'


@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_words_are_known_without_case(write: Write, case: Callable[[str], str]) -> None:
    lines = [f"a,{i},.5,{case(w.replace(' ', '_'))}" for i, w in enumerate(WORDS)]
    found = read_runs(write(runs(*lines, header="variant,seed,accuracy,status")), RunColumns())
    assert found.frame["status"].tolist() == list(WORDS.values())
    assert set(WORDS.values()) == set(STATES)


def test_a_word_that_is_not_known(write: Write) -> None:
    path = write(
        runs("a,1,.5,finishd", "a,2,.5,stopped", "a,3,.5,ok", "b,3,.5,stopped", header="variant,seed,accuracy,status")
    )
    told = refused(path)
    assert told[0].startswith('status: "finishd" is not known (line 2) (did you mean "finished"?)')
    assert told[1].startswith('status: "stopped" is not known (lines 3, 5)')
    assert '--status "stopped=missing"' in told[1]
    assert all(word in told[1] for word in (*WORDS, *STATES))
    found = read_runs(path, RunColumns(), statuses={"Stopped": "missing", "finishd": "finished", "gone": "killed"})
    assert found.frame["status"].tolist() == ["finished", "missing", "finished", "missing"]
    assert found.notes[0] == 'No row has the status "gone", which was mapped.'


def test_a_mapping_stands_over_the_words_that_are_known(write: Write) -> None:
    path = write(runs("a,1,.5,failed", "a,2,.5,", header="variant,seed,accuracy,status"))
    assert refused(path)[0].startswith('status: "" is not known (line 3)')
    found = read_runs(path, RunColumns(), statuses={"failed": "diverged", "": "finished"})
    assert found.frame["status"].tolist() == ["diverged", "finished"]


def test_a_mapping_to_nowhere(write: Write) -> None:
    path = write(runs("a,1,.5,gone", header="variant,seed,accuracy,status"))
    (told,) = refused(path, statuses={"gone": "mising"})
    assert told.startswith('status: "gone" is mapped to "mising" (did you mean "missing"?)')
    (told,) = refused(path, statuses={"crashed": "failed", "gone": "killed"})
    assert told.startswith('status: "crashed" is mapped to "failed" (did you mean "crashed"?)')
    assert all(word in told for word in STATES)
    (told,) = refused(path, statuses={"gone": "lost"})
    assert "did you mean" not in told
    (told,) = refused(write(ROW), statuses={"gone": "missing"})
    assert told.startswith('status: words are mapped ("gone"), and there is no column "status"')


def test_without_statuses_values_decide(write: Write) -> None:
    found = read_runs(write(runs("a,1,.5", "a,2,", "a,3,NaN", "a,4,-inf", "a,5,Infinity")), RunColumns())
    assert found.frame["status"].tolist() == ["finished", "missing", "missing", "diverged", "diverged"]
    assert found.notes[:2] == (
        "2 runs have an infinite accuracy: they count as diverged (lines 5, 6).",
        "2 runs have no accuracy, and no column tells their status: they count as missing (lines 3, 4).",
    )


@pytest.mark.parametrize(
    ("word", "value", "status"),
    [
        ("finished", "0.5", "finished"),
        ("finished", "nan", "diverged"),
        ("finished", "-NaN", "diverged"),
        ("finished", "+inf", "diverged"),
        ("finished", "-Infinity", "diverged"),
        ("finished", "1e999", "diverged"),
        ("finished", "", "missing"),
        ("crashed", "", "crashed"),
        ("oom", "nan", "out_of_memory"),
        ("timeout", "0.5", "timed_out"),
        ("diverged", "", "diverged"),
        ("dead", "0.5", "diverged"),
        ("running", "0.5", "missing"),
    ],
)
def test_status_and_value_together(write: Write, word: str, value: str, status: str) -> None:
    found = read_runs(write(runs(f"a,1,{value},{word}", header="variant,seed,accuracy,status")), RunColumns())
    assert rows(found, "status") == [(status,)]
    assert np.isfinite(found.frame["value"][0]) == (status == "finished")


def test_long_lists_of_lines_are_shortened(write: Write) -> None:
    lines = [f"a,{i},nan,finished" for i in range(20)]
    (note,) = read_runs(write(runs(*lines, header="variant,seed,accuracy,status")), RunColumns()).notes
    assert note == (
        "20 runs finished with a value that is not a number: they count as diverged"
        " (lines 2, 3, 4, 5, 6, 7 and 14 more)."
    )


# --- Values -------------------------------------------------------------------------------------------------------


def test_decimal_commas(write: Write) -> None:
    text = runs("a;1;0,825", "a;2;1,234", "a;3;1", "a;4;-,5", "a;5;1,5e-3", header="variant;seed;accuracy")
    found = read_runs(write(text), RunColumns())
    assert found.frame["value"].tolist() == [0.825, 1.234, 1, -0.5, 0.0015]
    assert found.notes == ('Commas in accuracy are decimal commas: "0,825" is 0.825.',)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            runs("a;1;1,234", "a;2;0.5", header="variant;seed;accuracy"),
            'metric: accuracy has a comma in "1,234" (line 2) and a point in "0.5" (line 3)',
        ),
        (
            runs("a;1;.5", "a;2;0,5", header="variant;seed;accuracy"),
            'metric: accuracy has a comma in "0,5" (line 3) and a point in ".5" (line 2)',
        ),
        (runs('a,1,"0,825"'), 'metric: accuracy has a comma in "0,825" (line 2)'),
        (runs("a,1,91.2%", "a,2,0.9"), 'metric: accuracy is "91.2%" (line 2) and "0.9" (line 3)'),
        (
            runs("a;1;1.234,5", "a;2;1", header="variant;seed;accuracy"),
            'line 2: accuracy is "1.234,5", which is no number',
        ),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(write: Write, text: str, says: str) -> None:
    (told,) = refused(write(text))
    assert told.startswith(says)


def test_percentages_become_the_nearest_share(write: Write) -> None:
    found = read_runs(write(runs("a,1,91.2%", "a,2,91.2 %", "a,3,nan", "a,4,7%", "a,5,")), RunColumns())
    assert found.frame["value"].dropna().tolist() == [0.912, 0.912, 0.07]
    assert found.notes[0] == 'accuracy is in percent and was read as shares: "91.2%" is 0.912.'
    hundredths = [f"{i // 10}.{i % 10}" for i in range(1001)]
    lines = runs(*(f"a,{i},{share}%" for i, share in enumerate(hundredths)))
    assert read_runs(write(lines), RunColumns()).frame["value"].tolist() == [i / 1000 for i in range(1001)]
    comma = read_runs(write(runs("a;1;91,2 %", header="variant;seed;accuracy")), RunColumns())
    assert comma.frame["value"].tolist() == [0.912]


@pytest.mark.parametrize(
    "cell", ["n/a?", "0.8.1", "abc", "1_000", "٣", "0x10", "1 000", "−0.5", "0.8 (3)", "5e1%", "$1", "true"]
)
def test_text_among_numbers_is_a_fault(write: Write, cell: str) -> None:
    (told,) = refused(write(runs("a,1,.5", f"a,2,{cell}")))
    assert told.startswith(f'line 3: accuracy is "{cell}", which is no number')


def test_a_column_of_text_names_columns_of_numbers(write: Write) -> None:
    path = write(runs("a,1,good,.5,.6", "b,1,bad,.5,", header="variant,seed,accuracy,loss,test accuracy"))
    (told,) = refused(path)
    assert told == (
        'metric: accuracy is not a number in any of 2 rows (line 2: "good")\n'
        '    allowed: columns of numbers are "test accuracy", "seed", "loss"; name one with --metric'
    )
    (told,) = refused(write(runs("a,b,good")))
    assert told.endswith("allowed: a column of numbers, and there is none")


def test_booleans_are_no_metric(write: Write, tmp_path: Path) -> None:
    assert refused(write(runs("a,1,True", "a,2,false", "a,3,")))[0].startswith("metric: accuracy holds true and false")
    path = tmp_path / "runs.parquet"
    pd.DataFrame({"variant": ["a", "b"], "seed": [1, 1], "accuracy": [True, False]}).to_parquet(path)
    assert refused(path)[0].startswith("metric: accuracy holds true and false (row 1)")


def test_counts(write: Write) -> None:
    header = "variant,seed,accuracy,count"
    found = read_runs(write(runs("a,1,.5,400", "a,2,.5,400.0", "a,3,.5,", "a,4,.5,NaN", header=header)), RunColumns())
    assert found.frame["count"].dtype == "Int64"
    assert found.frame["count"].tolist() == [400, 400, pd.NA, pd.NA]
    told = refused(
        write(runs("a,1,.5,0", "a,2,.5,12.5", "a,3,.5,-3", "a,4,.5,many", f"a,5,.5,{'9' * 30}", header=header))
    )
    assert [t.splitlines()[0].split(": ")[0] for t in told] == [f"line {i}" for i in range(2, 7)]
    assert told[1].startswith('line 3: count ("count") is "12.5", which is no number of test examples')
    assert read_runs(write(ROW), RunColumns()).frame["count"].tolist() == [pd.NA]


# --- Runs that stand twice ----------------------------------------------------------------------------------------


HEADER = "variant,seed,accuracy,status"


def test_a_try_without_a_result_gives_way(write: Write) -> None:
    path = write(runs("a,1,.4,crashed", "b,1,.6,ok", "a,1,,killed", "a,1,.5,finished", header=HEADER))
    found = read_runs(path, RunColumns())
    assert rows(found, "variant", "value", "row") == [("b", 0.6, 3), ("a", 0.5, 5)]
    assert found.notes == (
        (
            '2 other tries of "a" with seed "1" that came to no result were left out, beside the one that ended'
            " (lines 2, 4)."
        ),
    )


def test_tries_without_a_result_stand_once(write: Write) -> None:
    path = write(runs("a,1,,crashed", "a,1,,killed", "b,1,,oom", "b,1,,oom", "b,2,.5,ok", header=HEADER))
    found = read_runs(path, RunColumns())
    assert rows(found, "variant", "status", "row") == [
        ("a", "killed", 3),
        ("b", "out_of_memory", 5),
        ("b", "finished", 6),
    ]
    assert found.notes == (
        (
            "2 other tries of 2 runs were left out: none came to a result, and the last one in the file stands for them"
            " (lines 2, 4)."
        ),
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (".5,finished", ".5,finished"),
        (".5,finished", ",diverged"),
        ("nan,finished", ".5,finished"),
        (",finished", ".5,finished"),  # a blank that may be a NaN must not give way to a luckier rerun
    ],
)
def test_two_results_of_one_cell_are_refused(write: Write, first: str, second: str) -> None:
    (told,) = refused(write(runs(f"a,1,{first}", "b,1,.5,ok", f"a,1,{second}", "a,1,,crashed", header=HEADER)))
    assert told.splitlines() == [
        'lines 2, 4 are all "a" with seed "1", and all ended',
        "    allowed: one of them; another column that tells them apart can be part of the seed (--seed)",
    ]


def test_without_statuses_a_nan_does_not_give_way_and_a_blank_does(write: Write) -> None:
    assert refused(write(runs("a,1,nan", "a,1,.5")))[0].startswith('lines 2, 3 are all "a"')
    assert rows(read_runs(write(runs("a,1,", "a,1,.5")), RunColumns()), "value", "row") == [(0.5, 3)]


# --- Parquet ------------------------------------------------------------------------------------------------------


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    table = pa.table(
        {
            "variant": pa.array(["NA", "007", "a ", "a"]).dictionary_encode(),
            "seed": pa.array([1, 2, 3, 4], pa.int64()),
            "accuracy": pa.array([0.1 + 0.2, float("nan"), None, float("-inf")], pa.float64()),
            "status": ["finished"] * 4,
            "count": pa.array([400, None, 400, 400], pa.int32()),
            "curve": pa.array([[1.0]] * 4),
        }
    )
    pq.write_table(table, path)
    found = read_runs(path, RunColumns())
    assert rows(found, "variant", "seed", "status", "row") == [
        ("NA", "1", "finished", 1),
        ("007", "2", "diverged", 2),
        ("a", "3", "missing", 3),
        ("a", "4", "diverged", 4),
    ]
    assert found.frame["value"][0] == 0.1 + 0.2
    assert found.frame["count"].tolist() == [400, pd.NA, 400, 400]
    assert found.notes[0].endswith("they count as diverged (rows 2, 4).")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float32(), [0.1, 1e-7, 3e38]),
        (pa.float16(), [0.5, 0.1, 100.0]),
        (pa.int8(), [1, -2, 3]),
        (pa.decimal128(9, 8), ["0.1", "0.00000001", "1.5"]),
        (pa.string(), ["0.1", "1e-7", "2"]),
        (pa.large_string(), ["0.1", "1e-7", "2"]),
    ],
)
def test_every_type_of_number_is_taken_as_it_is(tmp_path: Path, kind: pa.DataType, values: list[Any]) -> None:
    array = pa.array(values, pa.string()).cast(kind) if isinstance(values[0], str) else pa.array(values, kind)
    path = tmp_path / "runs.parquet"
    pq.write_table(pa.table({"variant": ["a"] * 3, "seed": ["1", "2", "3"], "accuracy": array}), path)
    assert read_runs(path, RunColumns()).frame["value"].tolist() == [float(v) for v in array.to_pylist()]


def test_bytes_are_text_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    pq.write_table(pa.table({"variant": ["größe".encode()], "seed": [1], "accuracy": [0.5]}), path)
    assert read_runs(path, RunColumns()).frame["variant"].tolist() == ["größe"]
    pq.write_table(pa.table({"variant": [b"\xff"], "seed": [1], "accuracy": [0.5]}), path)
    assert refused(path)[0].startswith("no Parquet file that can be read: 'utf-8' codec")


def test_faults_of_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.parquet"
    pq.write_table(pa.table({"variant": [None, "b"], "seed": [1, 1], "accuracy": [[1.0], [2.0]]}), path)
    assert refused(path)[0].startswith("column 'accuracy' holds list<")
    pq.write_table(pa.table({"variant": [None, "b"], "seed": [1, 1], "accuracy": ["x", "y"], "loss": [1, 2]}), path)
    told = refused(path)
    assert told[0].startswith('row 1: variant ("variant") is empty')
    assert 'columns of numbers are "seed", "loss"' in told[1]
    pq.write_table(pa.table({"variant": ["a"], "seed": [1], "accuracy": [0.5], "State": ["crashed"]}), path)
    assert refused(path)[0].startswith('status: the column "State" says "crashed" (row 1)')
    twice = pa.table(
        [pa.array(["a"]), pa.array([1]), pa.array([0.5]), pa.array([0.5])], ["variant", "seed", "accuracy", "accuracy"]
    )
    pq.write_table(twice, path)
    assert refused(path)[0].startswith('metric: 2 columns are called "accuracy"')
    pq.write_table(twice.slice(0, 0), path)
    assert refused(path) == ["holds a header and no rows: one row per run is needed"]
    repeated = pa.DictionaryArray.from_arrays(pa.array([0] * 60_000, pa.int32()), pa.array(["x" * 2000]))
    pq.write_table(pa.table({"variant": repeated, "seed": range(60_000), "accuracy": [0.5] * 60_000}), path)
    assert "take 120," in refused(path)[0]
    pq.write_table(pa.table({"variant": ["a"] * 9}), path)
    monkeypatch.setattr(tabular, "RUNS", replace(tabular.RUNS, rows=8))
    assert refused(path) == ["9 rows, where at most 8 are read; take a part of them"]


# --- Properties ---------------------------------------------------------------------------------------------------


def _named(alphabet: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=1, max_size=12).filter(lambda name: name.strip() != "")


CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
NAMED = _named(st.one_of(CHARACTERS, st.sampled_from(",;\t\"'\r\n =%<\ufeff")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("properties")


def _written(path: Path, lines: Sequence[Sequence[str]], *, delimiter: str, encoding: str) -> Imported:
    with path.open("w", newline="", encoding=encoding) as opened:
        csv.writer(opened, delimiter=delimiter).writerows([["variant", "seed", "accuracy"], *lines])
    return read_runs(path, RunColumns())


@given(
    names=st.lists(NAMED, min_size=1, max_size=8, unique_by=plain),
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=8, max_size=8),
    delimiter=st.sampled_from(",;\t"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
@settings(max_examples=150, deadline=None)
def test_names_and_values_come_back(
    folder: Path, names: list[str], values: list[float], delimiter: str, encoding: str
) -> None:
    lines = [[name, name, repr(value)] for name, value in zip(names, values, strict=False)]
    found = _written(folder / "runs.csv", lines, delimiter=delimiter, encoding=encoding)
    stripped = [plain(name) for name in names]
    assert rows(found, "variant", "seed", "value") == [
        (name, name, value) for name, value in zip(stripped, values, strict=False)
    ]


@given(data=st.data(), names=st.lists(NAMED, min_size=1, max_size=8, unique_by=plain))
@settings(max_examples=50, deadline=None)
def test_the_order_of_rows_does_not_matter(folder: Path, data: st.DataObject, names: list[str]) -> None:
    cells = st.sampled_from(["0.5", "", "nan", "inf", "-1e-3"])
    lines = [[name, "1", data.draw(cells)] for name in names]
    shuffled = data.draw(st.permutations(lines))
    one, other = (
        _written(folder / "runs.csv", rows_, delimiter=",", encoding="utf-8").frame.drop(columns="row")
        for rows_ in (lines, shuffled)
    )
    assert other["variant"].tolist() == [plain(name) for name, _, _ in shuffled]
    pd.testing.assert_frame_equal(
        one.sort_values("variant", ignore_index=True), other.sort_values("variant", ignore_index=True)
    )


@given(raw=st.binary(max_size=200), start=st.sampled_from([b"", b"variant,seed,accuracy\n", b"PAR1", b"\xff\xfe"]))
@settings(max_examples=150, deadline=None)
def test_no_bytes_raise_anything_else(folder: Path, raw: bytes, start: bytes) -> None:
    path = folder / "runs.csv"
    path.write_bytes(start + raw)
    try:
        found = read_runs(path, RunColumns())
    except FaultsError:
        return
    assert (np.isfinite(found.frame["value"]) == (found.frame["status"] == "finished")).all()


TRACKERS = {
    "Optuna": {
        "COMPLETE": "finished", "PRUNED": "missing", "FAIL": "crashed", "RUNNING": "missing", "WAITING": "missing",
    },
    "W&B": {
        "finished": "finished", "crashed": "crashed", "failed": "crashed", "killed": "killed", "running": "missing",
        "preempted": "killed", "preempting": "missing", "pending": "missing",
    },
    "MLflow": {
        "FINISHED": "finished", "FAILED": "crashed", "KILLED": "killed", "RUNNING": "missing", "SCHEDULED": "missing",
    },
    "SLURM": {
        "COMPLETED": "finished", "CANCELLED": "killed", "CANCELLED by 1000": "killed", "CANCELLED+": "killed",
        "TIMEOUT": "timed_out", "OUT_OF_MEMORY": "out_of_memory", "OUT_OF_ME+": "out_of_memory",
        "NODE_FAIL": "crashed", "PREEMPTED": "killed", "FAILED": "crashed", "PENDING": "missing",
    },
}  # fmt: skip


@pytest.mark.parametrize("tracker", TRACKERS)
def test_the_words_of_a_tracker(tracker: str, write: Write) -> None:
    words = TRACKERS[tracker]
    lines = [f"a,{i},.5,{word}" for i, word in enumerate(words)]
    found = read_runs(write(runs(*lines, header="variant,seed,accuracy,status")), RunColumns())
    assert found.frame["status"].tolist() == list(words.values())
    finished = [word == "finished" for word in words.values()]
    assert found.frame["value"].notna().tolist() == finished  # the last value of a run that did not finish is none


@pytest.mark.parametrize("word", ["PRUNED", "FAIL", "CANCELLED", "preempted", "stopped", "abgebrochen"])
def test_a_status_that_is_not_read_is_asked_about_whatever_its_words(word: str, write: Write) -> None:
    path = write(runs("a,1,.5,finished", f"a,2,.4,{word}", header="variant,seed,accuracy,state"))
    assert f'the column "state" says "{word}" (line 3), and is not read' in refused(path)[0]
