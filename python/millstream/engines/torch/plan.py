"""One step's rows laid out flat: all tokens of all rows behind one another."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.engines.torch.batch import Batch


@dataclass(frozen=True, slots=True)
class Plan:
    """Row ``i`` computes ``counts[i]`` tokens of ``slots[i]`` from position ``starts[i]`` on."""

    slots: list[int]
    starts: list[int]
    counts: list[int]
    decode_slots: list[int]
    """Slots whose input is the token they sampled last."""
    decode_indexes: list[int]
    """Where the inputs of ``decode_slots`` lie among the flat tokens."""
    sample_slots: list[int]
    sample_indexes: list[int]
    """Flat index of the last token of each row that samples."""
    host_ids: list[int]
    """Flat input ids, 0 where the input is on the device."""

    @classmethod
    def of(cls, batch: Batch) -> Plan:
        """Lay out a batch."""
        plan = cls([], [], [], [], [], [], [], [])
        for row in batch.rows:
            plan.slots.append(row.slot)
            plan.starts.append(row.num_cached_tokens)
            if row.tokens:
                plan.counts.append(len(row.tokens))
                plan.host_ids.extend(row.tokens)
            else:
                plan.counts.append(1)
                plan.decode_slots.append(row.slot)
                plan.decode_indexes.append(len(plan.host_ids))
                plan.host_ids.append(0)
            if row.sample:
                plan.sample_slots.append(row.slot)
                plan.sample_indexes.append(len(plan.host_ids) - 1)
        return plan

    def positions(self) -> list[int]:
        """Position of each flat token in its sequence."""
        flat: list[int] = []
        for start, count in zip(self.starts, self.counts, strict=True):
            flat.extend(range(start, start + count))
        return flat
