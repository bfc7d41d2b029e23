"""alerts/*: what runs and schedules report, so that somebody is told when they fail."""

from collections.abc import Iterable
from typing import TypeVar
from uuid import UUID

from carrel._calls import Call
from carrel._operations import Operation, Raw, Resource
from carrel.resources._arguments import Id, Members, as_any, as_list
from carrel.resources._choices import AnyRunOutcome
from carrel.wire import alerts as wire

M = TypeVar("M")


class Alerts(Resource[M]):
    """Reports of runs and schedules, made by the programs that carry them out."""

    @property
    def with_raw_response(self) -> "Alerts[Raw[M]]":
        """The operations of the resource, returning the whole HTTP answer (`.headers`, `.request_id`, `.parsed`)."""
        return Alerts(self._session.as_raw())

    @Operation
    def report_run(
        self,
        run_id: Id,
        outcome: AnyRunOutcome,
        *,
        subject: str,
        flow: str,
        source: str,
        code: str | None = None,
        document_count: int | None = None,
        quarantined_count: int | None = None,
        flow_run_id: Id | None = None,
        has_begun: bool | None = None,
    ) -> Call[wire.ReportRunResponse]:
        """Report that a run has not ended yet, or how it ended; the former again after `report_again_seconds`.

        One that fails while `has_begun` is False is an alert only if an earlier run over the same subject had begun.

        Raises ConflictError `too_many_reports`.
        """
        request = wire.ReportRunRequest(
            run_id=as_any(UUID, run_id),
            subject=subject,
            flow=flow,
            source=source,
            outcome=as_any(wire.RunOutcome, outcome),
            code=code,
            document_count=document_count,
            quarantined_count=quarantined_count,
            flow_run_id=None if flow_run_id is None else as_any(UUID, flow_run_id),
            has_begun=has_begun,
        )
        return Call(wire.REPORT_RUN, request)

    @Operation
    def report_schedules(
        self, schedules: Iterable[wire.ReportedSchedule | Members]
    ) -> Call[wire.ReportSchedulesResponse]:
        """Report all schedules that are served (at most 1000), each with when it is due.

        Raises ConflictError `too_many_reports`.
        """
        request = wire.ReportSchedulesRequest(schedules=as_list(wire.ReportedSchedule, schedules))
        return Call(wire.REPORT_SCHEDULES, request)
