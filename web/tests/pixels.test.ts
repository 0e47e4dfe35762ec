import { describe, expect, it } from "vitest";
import { mix, pixelOf, Pixels } from "../src/timeline/pixels";

const ink = 0xff0000ff;

/** drawn has a line of text for each row of pixels: # where there is a colour, · where the ground shows. */
function drawn(width: number, height: number, draw: (pixels: Pixels) => void): string[] {
  const pixels = new Pixels(width, height);
  draw(pixels);
  return Array.from({ length: height }, (_, y) => [...pixels.data.subarray(y * width, (y + 1) * width)].map((pixel) => (pixel === 0 ? "·" : "#")).join(""));
}

describe("fill", () => {
  it.each([
    ["inside", { x: 1, y: 1, width: 2, height: 1 }, ["····", "·##·", "····"]],
    ["over the left edge", { x: -3, y: 1, width: 4, height: 1 }, ["····", "#···", "····"]],
    ["over the right edge, and not into the next row", { x: 3, y: 0, width: 9, height: 1 }, ["···#", "····", "····"]],
    ["over the upper and the lower edge", { x: 0, y: -5, width: 1, height: 20 }, ["#···", "#···", "#···"]],
    ["wholly left", { x: -9, y: 0, width: 4, height: 3 }, ["····", "····", "····"]],
    ["wholly right", { x: 4, y: 0, width: 4, height: 3 }, ["····", "····", "····"]],
    ["wholly below", { x: 0, y: 3, width: 4, height: 3 }, ["····", "····", "····"]],
    ["wholly above", { x: 0, y: -3, width: 4, height: 3 }, ["····", "····", "····"]],
    ["of no width", { x: 2, y: 0, width: 0, height: 3 }, ["····", "····", "····"]],
    ["of less than no width", { x: 3, y: 0, width: -2, height: 3 }, ["····", "····", "····"]],
    ["between pixels", { x: 0.6, y: 0.4, width: 2, height: 1 }, ["·##·", "····", "····"]],
  ])("leaves out what lies outside: a box %s", (_name, box, want) => {
    expect(drawn(4, 3, (pixels) => pixels.fill(box, ink))).toEqual(want);
  });
});

describe("hatch", () => {
  it("draws slanting lines, and hangs together across boxes of a row", () => {
    const whole = drawn(12, 4, (pixels) => pixels.hatch({ x: 0, y: 0, width: 12, height: 4 }, ink, 1));
    expect(whole).toEqual(["##····##····", "#····##····#", "····##····##", "···##····##·"]);
    const halves = drawn(12, 4, (pixels) => {
      pixels.hatch({ x: 0, y: 0, width: 5, height: 4 }, ink, 1);
      pixels.hatch({ x: 5, y: 0, width: 7, height: 4 }, ink, 1);
    });
    expect(halves).toEqual(whole);
  });
  it("stays inside of the picture and of its box", () => {
    expect(drawn(4, 2, (pixels) => pixels.hatch({ x: -6, y: -6, width: 8, height: 20 }, ink, 1))).toEqual(["##··", "#···"]);
  });
});

describe("diamond", () => {
  it("stands around its point", () => {
    expect(drawn(5, 5, (pixels) => pixels.diamond(2, 2, 2, ink))).toEqual(["··#··", "·###·", "#####", "·###·", "··#··"]);
  });
  it.each([
    ["left", 0, 1, ["#··", "##·", "#··"]],
    ["right", 2, 1, ["··#", "·##", "··#"]],
    ["upper", 1, -1, ["·#·", "···", "···"]],
    ["lower", 1, 3, ["···", "···", "·#·"]],
  ])("is cut by the %s edge", (_name, x, y, want) => {
    const pixels = drawn(3, 3, (p) => p.diamond(x, y, 1, ink));
    expect(pixels).toEqual(want);
  });
});

describe("notch", () => {
  it("cuts the upper right corner off", () => {
    const box = { x: 0, y: 0, width: 5, height: 3 };
    const want = ["##···", "###··", "####·"];
    expect(drawn(5, 3, (pixels) => (pixels.fill(box, ink), pixels.notch(box, 3, 0)))).toEqual(want);
  });
  it("cuts nothing of what stands beside a box that ends outside", () => {
    const box = { x: 2, y: 0, width: 5, height: 3 };
    expect(drawn(4, 3, (pixels) => (pixels.fill(box, ink), pixels.notch(box, 2, 0)))).toEqual(["··##", "··##", "··##"]);
  });
});

describe("colours", () => {
  it("are bytes in the order of a canvas", () => {
    const pixels = new Pixels(1, 1);
    pixels.fill({ x: 0, y: 0, width: 1, height: 1 }, pixelOf("#102aF0"));
    expect([...pixels.bytes]).toEqual([0x10, 0x2a, 0xf0, 0xff]);
  });
  it("that a canvas does not write as #rrggbb are grey instead of missing", () => {
    expect(pixelOf("rgba(1, 2, 3, 0.5)")).toBe(0xff808080);
    expect(pixelOf("")).toBe(0xff808080);
  });
  it("mix byte by byte and stay opaque", () => {
    expect(mix(pixelOf("#000000"), pixelOf("#ffffff"), 0.5)).toBe(pixelOf("#808080"));
    expect(mix(pixelOf("#123456"), pixelOf("#ffffff"), 0)).toBe(pixelOf("#123456"));
    expect(mix(pixelOf("#123456"), pixelOf("#ffffff"), 1)).toBe(pixelOf("#ffffff"));
  });
});
