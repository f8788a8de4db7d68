"""Halves and probes of a pair see the same prompt, however it is dressed; demonstrations depend on the item alone."""

import json
import random

import pytest
from lm_eval.utils import hash_string

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness.fewshot import ItemSampler
from lm_eval_illusion.pairs import conditions
from lm_eval_illusion.pairs.docs import build, near_options
from lm_eval_illusion.pairs.prompts import LETTERS, labels_of
from lm_eval_illusion.pairs.tables import SPLIT, keep_demonstrations, load

CONDITIONS = ("mc", "mc_far", "gen")
LANGUAGES = (("tydiqa", "sw"), ("xquad", "zh"), ("illusion_mini", "en"))


def chat_template(messages, add_generation_prompt=True):
    shown = "".join(f"<{m['role']}>{m['content']}</{m['role']}>" for m in messages)
    return shown + ("<assistant>" if add_generation_prompt else "")


def prompts(task, shots, *, chat=False, limit=None, samples=None, seed=1234, **dress):
    task.set_config("num_fewshot", shots)
    task.set_fewshot_seed(seed)
    task.build_all_requests(
        limit=limit,
        samples=samples,
        apply_chat_template=chat,
        chat_template=chat_template if chat else None,
        **dress,
    )
    found = {}
    for request in task.instances:
        if request.arguments[0]:
            found.setdefault(request.doc["item_id"], set()).add(request.arguments[0])
    assert all(len(texts) == 1 for texts in found.values())
    return {item: texts.pop() for item, texts in found.items()}


@pytest.fixture(scope="module", params=LANGUAGES, ids=["_".join(pair) for pair in LANGUAGES])
def tasks(request, tmp_path_factory):
    from lm_eval.tasks import TaskManager

    from lm_eval_illusion.pairs import pins
    from tests.pairs.conftest import forget
    from tests.pairs.made import write_folder

    from .conftest import TASKS

    dataset, language = request.param
    patch = pytest.MonkeyPatch()
    patch.setattr(pins, "pins", dict)
    forget()
    told = {"illusion_data": str(write_folder(tmp_path_factory.mktemp("data"))), "illusion_items_per_language": 4}
    fed = tmp_path_factory.mktemp("fed") / "fed.json"
    answers = {
        row["item_id"]: dict.fromkeys(conditions.CONDITIONS, "an earlier answer")
        for row in build(dataset, language, folder=told["illusion_data"], count=4).rows
    }
    fed.write_text(json.dumps({"schema": 1, "from": [], "items": None, "answers": answers}), encoding="utf-8")
    told["illusion_answers"] = str(fed)
    manager = TaskManager(include_path=str(TASKS), include_defaults=False, metadata=told)
    names = {condition: f"{dataset}_{condition}_{language}" for condition in conditions.CONDITIONS}
    loaded = manager.load(list(names.values()))["tasks"]
    yield {condition: loaded[name] for condition, name in names.items()}
    patch.undo()
    forget()


@pytest.fixture(scope="module")
def halves(tasks):
    return [tasks[condition] for condition in CONDITIONS]


@pytest.mark.parametrize("shots", [0, 1, 2, 3])
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("system", [None, "Be brief."])
@pytest.mark.parametrize("multiturn", [False, True])
def test_prompts_are_equal_to_the_byte(halves, shots, chat, system, multiturn):
    if multiturn and not chat:
        multiturn = False  # the harness takes turns only with a template
    dress = {"chat": chat, "system_instruction": system, "fewshot_as_multiturn": multiturn}
    near, far, generated = (prompts(task, shots, **dress) for task in halves)
    assert len(near) == 4
    assert near == far == generated
    assert {i: hash_string(p) for i, p in near.items()} == {i: hash_string(p) for i, p in generated.items()}
    for doc in halves[0].eval_docs:
        shown = near[doc["item_id"]]
        assert doc["prompt"] in shown
        assert shown.endswith(doc["prompt"] if not chat else "<assistant>")
        assert ("Be brief." in shown) == (system is not None)


def shots_of(text, prompt):
    """Return the demonstrations in front of a prompt, each with its answer."""
    parts = text.removesuffix(prompt).split("\n\n")
    assert parts.pop() == ""
    return parts


@pytest.mark.parametrize("shots", [0, 2])
@pytest.mark.parametrize("chat", [False, True])
def test_probes_that_read_the_pair_s_prompt_read_it_to_the_byte(tasks, shots, chat):
    wanted = prompts(tasks["gen"], shots, chat=chat)
    for name, condition in conditions.CONDITIONS.items():
        assert (prompts(tasks[name], shots, chat=chat) == wanted) == condition.same_prompt, name


def test_one_more_demonstration_whatever_the_number_of_others(tasks):
    pool = {doc["item_id"]: doc for doc in tasks["gen"].fewshot_docs()}
    delimiter = tasks["gen"].config.target_delimiter
    for shots in (0, 2):
        plain, more = prompts(tasks["gen"], shots), prompts(tasks["oneshot"], shots)
        for doc, own in zip(tasks["oneshot"].eval_docs, tasks["gen"].eval_docs, strict=True):
            shot = pool[doc["demonstration_item"]]
            added = f"{shot['prompt']}{delimiter}{shot['gold_text']}"
            theirs = shots_of(plain[doc["item_id"]], own["prompt"])
            assert added not in theirs
            assert more[doc["item_id"]] == "\n\n".join([*theirs, added, own["prompt"]])
    turned = prompts(tasks["oneshot"], 1, chat=True, fewshot_as_multiturn=True)
    for doc in tasks["oneshot"].eval_docs:
        assert turned[doc["item_id"]].endswith(f"<user>{doc['prompt']}</user><assistant>")


FORMS = ("mc_letters", "shown", "shown_nogold", "closed_mc", "closed_gen", "question_only", "revise1_mc")


def options_of(row):
    return near_options(
        row["dataset"], row["language"], row["source_id"], folder=row["options_folder"], seed=row["options_seed"]
    )


def fits(row, doc):
    """Say whether a demonstration has options, and no answer of the item among them."""
    options = options_of(row)
    return options is not None and not set(options.choices) & set(doc["answers"])


def test_demonstrations_look_like_what_is_asked(tasks):
    pairs = tasks["gen"]
    language = pairs.eval_docs[0]["language"]
    labels, delimiter = labels_of(language), pairs.config.target_delimiter
    pool = {doc["item_id"]: doc for doc in tasks["shown"].fewshot_docs()}
    equal = set()
    for doc in pairs.eval_docs:
        shots = pairs.sampler.sample(2, eval_doc=doc)
        for name in FORMS:
            told = next(d for d in tasks[name].eval_docs if d["item_id"] == doc["item_id"])
            worn = tasks[name].sampler.sample(2, eval_doc=told)
            if name in ("closed_mc", "closed_gen", "question_only") or all(
                fits(pool[s["item_id"]], doc) for s in shots
            ):
                assert [w["item_id"] for w in worn] == [s["item_id"] for s in shots], name
                equal.add(name)
            assert all(fits(pool[w["item_id"]], doc) for w in worn if "closed" not in name and "only" not in name)
            text = prompts(tasks[name], 2)[doc["item_id"]]
            assert shots_of(text, told["prompt"]) == [w["prompt"] + delimiter + w["gold_text"] for w in worn]
            for shot in worn:
                lines, row = shot["prompt"].split("\n"), pool[shot["item_id"]]
                passage = name not in ("closed_mc", "closed_gen", "question_only")
                assert (lines[0] == f"{labels.passage}{delimiter}{row['passage']}") == passage, name
                assert f"{labels.question}{delimiter}{row['question']}" in lines
                told_options = options_of(row)
                if name == "mc_letters":
                    assert shot["gold_text"] == LETTERS[told_options.gold]
                    assert f"{shot['gold_text']}. {row['gold_text']}" in lines
                elif name.startswith("shown"):
                    assert [line[2:] for line in lines if line.startswith("- ")] == list(told_options.choices)
                    assert shot["gold_text"] == row["gold_text"]
                elif name == "revise1_mc":
                    earlier = lines[-2].removeprefix(f"{labels.earlier}{delimiter}")
                    assert earlier in told_options.choices
                else:
                    assert len(lines) == 2
    assert equal == set(FORMS)


def test_probe_demonstrations_do_not_depend_on_what_came_before(tasks):
    for name in ("shown", "mc_letters", "revise1_gen", "closed_gen", "oneshot"):
        straight = prompts(tasks[name], 2)
        assert prompts(tasks[name], 2, samples=[3, 1]).items() <= straight.items()
        random.seed(5)
        assert prompts(tasks[name], 2) == straight
        assert prompts(tasks[name], 2, seed=7) != straight


def test_continuations_of_letters(tasks):
    task = tasks["mc_letters"]
    prompts(task, 0)
    said = [request.arguments[1] for request in task.instances[:4]]
    assert said == [task.config.target_delimiter + letter for letter in "ABCD"]


def test_continuations(halves):
    near, _, generated = halves
    prompts(near, 0)
    prompts(generated, 0)
    doc = near.eval_docs[0]
    said = [request.arguments for request in near.instances if request.doc["item_id"] == doc["item_id"]]
    delimiter = near.config.target_delimiter
    assert [text for _, text in said[:4]] == [delimiter + choice for choice in doc["choices_near"]]
    assert [context for context, _ in said[4:]] == ["", "", "", ""]
    assert generated.instances[0].arguments[1]["until"] == []


def test_demonstrations_end_in_the_gold(halves):
    for task in halves:
        for item, text in prompts(task, 2).items():
            own = next(doc["prompt"] for doc in task.eval_docs if doc["item_id"] == item)
            parts = text.removesuffix(own).split("\n\n")
            assert parts.pop() == ""
            assert len(parts) == 2
            shown = {doc["prompt"] + task.config.target_delimiter + doc["gold_text"] for doc in task.fewshot_docs()}
            assert set(parts) <= shown


def test_demonstrations_do_not_depend_on_what_came_before(halves):
    task = halves[0]
    straight = prompts(task, 2)
    assert prompts(task, 2, limit=1).items() <= straight.items()
    assert prompts(task, 2, samples=[3, 1]).items() <= straight.items()
    random.seed(5)
    assert prompts(task, 2) == straight
    assert prompts(task, 2, seed=7) != straight


def test_never_the_same_passage_nor_an_option_as_answer(halves):
    task = halves[0]
    for doc in task.eval_docs:
        chosen = task.sampler.sample(3, eval_doc=doc)
        clusters = [shot["cluster"] for shot in chosen]
        assert doc["cluster"] not in clusters
        assert len(set(clusters)) == 3
        assert not {shot["gold_text"] for shot in chosen} & {*doc["choices_near"], *doc["choices_far"]}


def test_the_pool_is_the_full_set(data_folder):
    rows = [
        load(pairs_dataset="tydiqa", pairs_language="sw", illusion_data=data_folder, illusion_items_per_language=n)
        for n in (2, 8)
    ]
    pools = [{doc["item_id"] for doc in keep_demonstrations(r[SPLIT])} for r in rows]
    assert pools[0] == pools[1]
    assert len(pools[0]) == 32


def test_a_sampler_without_the_item_is_an_error():
    with pytest.raises(IllusionError, match="fewshot_split must equal test_split"):
        ItemSampler([{"prompt": "p"}]).sample(1)


def test_too_few_passages_for_so_many_demonstrations(halves):
    task = halves[0]
    with pytest.raises(IllusionError, match=r"500 demonstrations were asked for, but only \d+ .* --num_fewshot \d+"):
        task.sampler.sample(500, eval_doc=task.eval_docs[0])


def test_no_demonstrations():
    assert ItemSampler([]).sample(0) == []
