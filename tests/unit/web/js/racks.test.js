import assert from "node:assert/strict";
import { test } from "node:test";
import * as racks from "../../../../src/corral/web/static/js/nodes/racks.js";
/** @import { RackElevation } from "../../../../src/corral/web/static/js/api.js" */

/** @type {RackElevation[]} */
const ELEVATIONS = [
  {
    ...{ name: "a1", row: "east", units: 42 },
    nodes: [
      ["dgx1", 3, 8, 0, 1],
      ["dgx2", 11, 8, 0, 1],
      ["login1", 40, 1, 0, 1],
    ],
  },
  { name: "a2", row: "east", units: 42, nodes: [] },
  {
    ...{ name: "b1", row: "west", units: 48 },
    nodes: [
      ["cpu1", 1, 2, 0, 2],
      ["cpu2", 1, 2, 1, 2],
      ["cpu3", 3, 2, 0, 2],
      ["cpu4", 3, 2, 1, 2],
    ],
  },
];
const RACKS = racks.racksOf(ELEVATIONS);
const SIZE = { unit: 12, wide: 120 };

test("nodes are at their units, counted from the bottom", () => {
  const [a1, , b1] = RACKS;
  assert.deepEqual(
    a1.slots.map(({ name }) => name),
    ["login1", "dgx2", "dgx1"],
  );
  const [, top, , high] = racks.boxOf(a1, a1.slots[2], SIZE);
  assert.equal(top, 2 + (42 - 10) * 12); // units 3 to 10 of 42
  assert.equal(high, 8 * 12 - 1);
  const [left, right] = [b1.slots[2], b1.slots[3]].map((slot) => racks.boxOf(b1, slot, SIZE));
  assert.equal(left[1], right[1]);
  assert.ok(left[0] + left[2] < right[0]);
});

test("each node is found where it is drawn, and nothing in empty units", () => {
  for (const size of [SIZE, { unit: 28, wide: 240 }, { unit: 4, wide: 36 }]) {
    for (const rack of RACKS) {
      for (const slot of rack.slots) {
        const [x, y, wide, high] = racks.boxOf(rack, slot, size);
        for (const [px, py] of [
          [x, y],
          [x + wide - 1, y + high - 1],
        ]) {
          // prettier-ignore
          assert.equal(racks.slotAt(rack, size, px, py)?.name, slot.name);
        }
      }
    }
    assert.equal(racks.slotAt(RACKS[0], size, size.wide / 2, 2 + 10 * size.unit), undefined);
    assert.equal(racks.slotAt(RACKS[1], size, size.wide / 2, 20), undefined);
  }
});

test("keys go through a rack and on to the next one that has nodes", () => {
  /** @type {[string, string, string | null][]} */
  const cases = [
    ["ArrowDown", "", "login1"], ["ArrowDown", "login1", "dgx2"], ["ArrowDown", "dgx2", "dgx1"],
    ["ArrowDown", "dgx1", "dgx1"], ["ArrowUp", "dgx1", "dgx2"], ["ArrowLeft", "dgx1", "dgx1"],
    ["ArrowRight", "dgx1", "cpu3"], ["ArrowRight", "cpu3", "cpu4"], ["ArrowRight", "cpu4", "cpu4"],
    ["ArrowLeft", "cpu4", "cpu3"], ["ArrowLeft", "cpu1", "dgx1"], ["ArrowUp", "cpu2", "cpu4"],
    ["ArrowDown", "cpu4", "cpu2"], ["Home", "cpu1", "login1"], ["End", "dgx1", "cpu2"],
    ["Enter", "dgx1", null], ["a", "dgx1", null], ["ArrowDown", "gone", "login1"],
  ]; // prettier-ignore
  for (const [key, at, expected] of cases) {
    assert.equal(racks.moved(RACKS, key, at), expected, `${key} from ${at}`);
  }
  assert.equal(racks.moved([], "ArrowDown", ""), null);
  assert.equal(racks.moved([RACKS[1]], "Home", ""), null);
});

test("racks are as large as all of them fit, and in the rows of the file", () => {
  const rows = racks.inRows(RACKS).map(([row, some]) => [row, some.length]);
  assert.deepEqual(rows, [["east", 2], ["west", 1]]); // prettier-ignore
  const [few, crowd] = [RACKS, Array.from({ length: 300 }, () => RACKS[0])];
  const room = { width: 1400, height: 900 };
  assert.ok(racks.sizeFor(few, room).unit > racks.sizeFor(crowd, room).unit);
  assert.deepEqual(racks.sizeFor(crowd, room), { unit: 4, wide: 36 });
});

test("a place is named by its rack and units", () => {
  const [a1] = RACKS;
  assert.equal(racks.placeWords(a1, a1.slots[0]), "rack a1, unit 40");
  assert.equal(racks.placeWords(a1, a1.slots[2]), "rack a1, units 3 to 10");
});
