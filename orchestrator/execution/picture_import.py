"""Records submitted pictures in the form of an attack's output: teams submit them instead of a program (rule C2)."""

from dataclasses import replace

from orchestrator.domain import events
from orchestrator.domain.plan import Job
from orchestrator.domain.samples import AdversarialExamples, Pixels
from orchestrator.execution.attack_output_gate import no_examples
from orchestrator.execution.job_steps import save_examples
from orchestrator.execution.round_context import RoundContext


def import_events(job: Job, context: RoundContext) -> list[events.Event]:
    """Returns the one step and the end of a job whose submission is pictures, and stores the step's arrays.

    If the task has a budget, the pictures pass the gate like those that a program delivers (A14).
    """
    step = events.StepFinished(
        job=job.id,
        stage=job.stage,
        submission=job.submission,
        step=0,
        cells=[],
        blobs=save_examples(context.blobs, 0, _judged_examples(context, context.picture_sets[job.submission])),
        faults=[],
        seconds=0.0,
    )
    end = events.JobFinished(
        job=job.id, stage=job.stage, submission=job.submission, device=None, seconds=0.0, sandboxes=[]
    )
    return [step, end]


def _judged_examples(context: RoundContext, delivered: Pixels) -> AdversarialExamples:
    """Returns submitted pictures u8 [n, c, h, w] as adversarial examples, judged by the gate if there is a budget."""
    originals = context.samples.pixels
    if context.task.budget is None:
        return replace(no_examples(originals), pixels=delivered)
    gate = context.gate()
    examples = gate.missing_all(originals)
    gate.admit(examples, originals, tuple(range(len(originals))), delivered)
    return examples
