import { signal } from "@preact/signals";
import { describe, expect, it } from "vitest";
import { redraw, unmeasured } from "../src/timeline/redraw";

const room = { width: 800, height: 200, scrollTop: 0 };

function following() {
  const view = signal({ from: 0, to: 100 });
  const part = signal(unmeasured);
  const drawn: [number, number][] = [];
  const end = redraw(view, part, (of, at) => drawn.push([of.from, at.width]));
  return { view, part, drawn, end };
}

describe("redraw", () => {
  it("draws nothing while there is no room", () => {
    const { view, drawn } = following();
    view.value = { from: 10, to: 20 };
    expect(drawn).toEqual([]);
  });
  it("draws what is in view when the room becomes known, and every change of the view from then on", () => {
    const { view, part, drawn } = following();
    view.value = { from: 10, to: 20 };
    part.value = room;
    view.value = { from: 30, to: 40 };
    view.value = { from: 50, to: 60 };
    expect(drawn).toEqual([
      [10, 800],
      [30, 800],
      [50, 800],
    ]);
  });
  it("draws again after the room was gone for a while", () => {
    const { view, part, drawn } = following();
    part.value = room;
    part.value = unmeasured;
    view.value = { from: 70, to: 80 };
    part.value = { ...room, width: 400 };
    expect(drawn).toEqual([
      [0, 800],
      [70, 400],
    ]);
  });
  it("ends", () => {
    const { view, part, drawn, end } = following();
    part.value = room;
    end();
    view.value = { from: 30, to: 40 };
    expect(drawn).toEqual([[0, 800]]);
  });
});
