"""Calendar (L1): an appointment to be booked or moved in a week that has others in it.

The whole week is compared at the end, so that what was to be left alone counts as much as what was
to be done; the first free hour can only be known by looking.
"""

import random
from collections.abc import Sequence

from macaron.environments.base import Score, Split, Task
from macaron.environments.entities import names, numbers
from macaron.environments.splits import Content, Parts, draw, pick, user
from macaron.environments.toolkit import tool, verify_untouched
from macaron.harness.tools import Tool, ToolFault

MIX = {"book": 1.0, "move": 1.0}
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
HOURS = range(8, 18)
ASKS = {
    "book": (
        "Book {who} on {day} at the first free hour from {hour} on.",
        "I see {who} on {day}: take the first free hour from {hour} on.",
        "Find {who} the first free hour from {hour} on, on {day}, and book it.",
        "From {hour} on, on {day}, book the first free hour for {who}.",
    ),
    "move": (
        "Move {who} to {day}, to the first free hour from {hour} on.",
        "{who} can only come on {day}: take the first free hour from {hour} on instead.",
        "Put {who} on {day}, at the first free hour from {hour} on, and free the old hour.",
        "From {hour} on, on {day}, is better for {who}: move it to the first free hour.",
    ),
}
ENDS = ("Then say the hour.", "Answer with the hour.", "Tell me the hour at the end.")

Week = dict[str, dict[int, str]]
"""Day -> hour -> who comes."""


class Diary:
    """The week of one episode."""

    def __init__(self, task: Task) -> None:
        self._week, self._right, self._hour = weeks(task)

    def tools(self) -> Sequence[Tool]:
        """look, book, cancel."""
        return [tool(self.look), tool(self.book), tool(self.cancel)]

    def look(self, day: str) -> dict[str, str]:
        """Read a day: who comes at which hour. Hours run from 8 to 17."""
        return {str(hour): who for hour, who in sorted(self._day(day).items())}

    def book(self, day: str, hour: int, who: str) -> str:
        """Book a free hour of a day."""
        found = self._day(day)
        if hour not in HOURS:
            raise ToolFault("hours run from 8 to 17")
        if hour in found:
            raise ToolFault(f"{hour} is taken by {found[hour]}")
        found[hour] = who
        return "booked"

    def cancel(self, day: str, hour: int) -> str:
        """Free an hour of a day."""
        if hour not in self._day(day):
            raise ToolFault(f"{hour} is free")
        del self._day(day)[hour]
        return "cancelled"

    def _day(self, day: str) -> dict[int, str]:
        if day not in self._week:
            raise ToolFault(f"no day {day!r}; there are {', '.join(DAYS)}")
        return self._week[day]

    def score(self, answer: str) -> Score:
        """1 where the week is as it should be and the answer is the hour."""
        state = float(self._week == self._right)
        said = float(answer.strip().removesuffix(".") == str(self._hour))
        return Score(state * said, {"state": state, "answer": said})


def weeks(task: Task) -> tuple[Week, Week, int]:
    """The week as found, as it should be left, and the hour; the same for the same task."""
    data, rng = task.data, random.Random(task.data["seed"])
    others = [name for name in names(task.split) if name != data["who"]]
    week: Week = {
        day: {hour: rng.choice(others) for hour in sorted(rng.sample(HOURS, 5))} for day in DAYS
    }
    # The hour that was asked for is taken and the one after is not free in every second week.
    asked, start = week[data["day"]], data["hour"]
    asked[start] = rng.choice(others)
    asked.pop(max(HOURS), None)
    if data["old"]:
        week[data["old"]][min(h for h in HOURS if h not in week[data["old"]])] = data["who"]
    hour = min(h for h in HOURS if h >= start and h not in asked)
    right = {
        day: {h: who for h, who in hours.items() if who != data["who"]}
        for day, hours in week.items()
    }
    right[data["day"]][hour] = data["who"]
    return week, right, hour


class Calendars:
    """Appointments in a week."""

    name = "calendar"
    specialist = "L1"
    kinds: Sequence[str] = tuple(MIX)

    def sample(self, rng: random.Random, split: Split, kind: str | None = None) -> Task:
        """A wish; the kind says whether there is an old hour to be freed."""
        kind = pick(rng, MIX, kind)

        def phrases() -> Parts:
            return kind, rng.randrange(4), rng.randrange(3), *rng.sample(DAYS, 2)

        content = draw(split, self.name, phrases, lambda parts: _build(rng, split, parts))
        return Task(self.name, self.specialist, kind, split, *content)

    def world(self, task: Task) -> Diary:
        """The week as the task finds it."""
        return Diary(task)

    def verify(self, tasks: Sequence[Task], answers: Sequence[str]) -> list[Score]:
        """What answers without a single deed are worth: 0."""
        return verify_untouched(self, tasks, answers)


def _build(rng: random.Random, split: Split, parts: Parts) -> Content:
    kind, day, other = str(parts[0]), str(parts[3]), str(parts[4])
    who, hour = rng.choice(names(split)), rng.choice(numbers(split, 8, 15))
    said = ASKS[kind][int(parts[1])].format(who=who, day=day, hour=hour)
    old = other if kind == "move" else ""
    where = f" {who} is on {old} now." if old else ""
    data = {"who": who, "day": day, "hour": hour, "old": old, "seed": rng.getrandbits(32)}
    text = f"{said}{where} {ENDS[int(parts[2])]}"
    task = Task("calendar", "L1", kind, split, (), "", data)
    return (user(text),), str(weeks(task)[2]), data
