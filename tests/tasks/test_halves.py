"""Both halves of a pair see the same prompt, however it is dressed, and demonstrations depend on the item alone."""

import random

import pytest
from lm_eval.utils import hash_string

from lm_eval_illusion.errors import IllusionError
from lm_eval_illusion.harness.fewshot import ItemSampler
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
def halves(request, tmp_path_factory):
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
    manager = TaskManager(include_path=str(TASKS), include_defaults=False, metadata=told)
    names = [f"{dataset}_{condition}_{language}" for condition in CONDITIONS]
    loaded = manager.load(names)["tasks"]
    yield [loaded[name] for name in names]
    patch.undo()
    forget()


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
