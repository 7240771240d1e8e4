"""Bad input of matrices, points and fields: changes of a valid call, and the error."""

import numpy as np
from torch import complex64, eye, float8_e5m2, ones, tensor, zeros

from operators.case import INF, NAN, Errors, bad_type, bad_value

CORNERS = tensor([[0.0, 0], [9, 0], [9, 9], [0, 9]])


ERRORS: dict[str, Errors] = {
    "get_affine_matrix": Errors(
        {"center": (0, 0), "angle": 0},
        bad_value(scale=0, says="is 0, the matrix would be singular"),
        bad_value(scale=tensor([1.0, 0.0]), says="scale[1] is 0, the matrix would be singular"),
        bad_value(scale=(1, 0), says="scale[1] is 0, the matrix would be singular"),
        bad_value(scale=[1, 2, 3], says="is [1, 2, 3], expected a pair (x, y)"),
        bad_value(shear=(90, 0), says="is (90.0, 0.0), must not be a right angle"),
        bad_value(shear=(0, tensor([0.0, -90.0])), says="shear[1] must not be a right angle"),
        bad_value(angle=NAN, says="is nan, must be finite"),
        bad_value(center=(0, INF), says="center[1] is inf, must be finite"),
        bad_value(angle=tensor([0.0, 0.0, NAN]), says="angle[2] is not finite"),
        bad_value(center=3, says="is 3, expected a pair (x, y)"),
        bad_value(shear=np.zeros(3), says="has shape [3], expected [2] or [B, 2]"),
        bad_value(angle=zeros(2), scale=ones(3), says="arguments have different batch sizes [2,"),
        bad_value(angle=zeros(1, 2), says="has shape [1, 2], expected a number or [B]"),
        bad_type(angle="a", says="is a str, expected a number"),
    ),
    "get_rotation_matrix2d": Errors(
        {"center": (0, 0), "angle": 30.0},
        bad_type(angle="a", says="is a str, expected a number"),
    ),
    "invert_affine": Errors(
        {"matrix": eye(2, 3)},
        bad_value(matrix=zeros(4, 3), says="has shape [4, 3], expected [..., 2, 3] or [..., 3, 3]"),
        bad_value(
            matrix=tensor(
                [[[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]]
            ),
            says="matrix[0, 1] is singular",
        ),
        bad_value(
            matrix=np.array(
                [
                    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
                    [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],
                ]
            ),
            says="matrix[1] is singular",
        ),
        bad_value(matrix=np.array([[NAN, NAN, NAN], [NAN, NAN, NAN]]), says="is not finite"),
        bad_type(matrix=zeros(2, 3, dtype=complex64), says="is complex, expected real numbers"),
        bad_type(matrix=np.zeros((2, 3), object), says="has dtype object, expected real numbers"),
        bad_type(matrix="abc", says="is not an array of numbers"),
    ),
    "affine_from_points": Errors(
        {"src": CORNERS[:3], "dst": CORNERS[:3]},
        bad_value(src=[[0, 0], [1, 1]], says="has shape [2, 2], expected [N, 2] or [B, N, 2]"),
        bad_value(dst=np.zeros((3, 3)), says="has shape [3, 3], expected [N, 2]"),
        bad_value(dst=np.zeros((4, 2)), says="has shape [4, 2], must fit src's [3, 2]"),
        bad_value(
            src=zeros(2, 3, 2), dst=zeros(4, 3, 2), says="dst has shape [4, 3, 2], must fit src's"
        ),
        bad_value(
            dst=tensor(
                [[[0.0, 0.0], [10.0, 1.0], [2.0, 20.0]], [[0.0, 0.0], [1.0, NAN], [2.0, 1.0]]]
            ),
            says="dst[1] is not finite",
        ),
        bad_type(src=[[0, 0], [1]], says="is not an array of numbers"),
    ),
    "transform_points": Errors(
        {"points": zeros(3, 2), "matrix": eye(2, 3)},
        bad_type(
            points=ones(1, 2, dtype=float8_e5m2),
            says="has dtype float8_e5m2, must be float16, bfloat16, float32, ",
        ),
        bad_value(points=zeros(2), says="has shape [2], expected [..., N, 2]"),
        bad_value(matrix=eye(2, 2), says="has shape [2, 2], expected [..., 2, 3] or [..., 3, 3]"),
        bad_value(points=zeros(2, 1, 2), matrix=zeros(3, 2, 3), says="has batch dimensions [3],"),
    ),
    "transform_boxes": Errors(
        {"boxes": zeros(3, 4), "matrix": eye(2, 3)},
        bad_value(boxes=zeros(4), says="has shape [4], expected [..., N, 4]"),
    ),
    "similarity_from_points": Errors(
        {"src": CORNERS, "dst": CORNERS},
        bad_value(src=[[0, 0]], says="has shape [1, 2], expected [N, 2] or [B, N, 2] with at"),
        bad_value(dst=[[1, 1]] * 4, scale=False, says="has no best rotation: every one is as good"),
        bad_value(src=[[0, 0], [NAN, 1]], says="is not finite"),
    ),
    "homography_from_points": Errors(
        {"src": CORNERS, "dst": CORNERS},
        bad_value(src=[[0.0, 0.0], [10.0, 0.0], [10.0, 10.0]], says="has shape [3, 2], expected"),
        bad_value(dst=zeros(5, 2), says="has shape [5, 2], must fit src's [4, 2]"),
        bad_value(
            dst=tensor(
                [
                    [[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]],
                    [[NAN, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]],
                ]
            ),
            says="dst[1] is not finite",
        ),
        bad_type(src="abcd", says="is not an array of numbers"),
    ),
    "letterbox": Errors(
        {"image_size": (3, 4), "size": 8},
        bad_value(image_size=(3, 4, 5), says="has shape [3], expected [2] or [B, 2]"),
        bad_value(image_size=[[3, 4], [0, 4]], says="image_size[1] must be two positive"),
        bad_value(image_size=(3.5, 4), says="must be two positive integers"),
        bad_value(image_size=(NAN, 4), says="must be two positive integers"),
        bad_value(size=(8, 0), says="is (8, 0), must be a positive integer or (height, width)"),
        bad_value(size=8.5, says="is 8.5, must be a positive integer or (height, width)"),
        bad_value(size="big", says="is 'big', must be a positive integer or (height, width)"),
        bad_value(convention="opencv", says="is 'opencv', must be 'half_pixel' or 'integer'"),
    ),
    "unletterbox_boxes": Errors(
        {"boxes": zeros(3, 4), "image_size": (3, 4), "size": 8},
        bad_value(boxes=zeros(4), says="has shape [4], expected [..., N, 4]"),
        bad_value(
            boxes=zeros(5, 4),
            image_size=[[3, 4], [5, 6]],
            says="has shape [5, 4], expected [2, N, 4] or [2, 4] as image_size has 2 samples",
        ),
    ),
    "displacement_field": Errors(
        {"grid": zeros(3, 4, 2), "size": (4, 4)},
        bad_value(grid=np.zeros((2, 2)), says="is of shape [2, 2], must be [gh, gw, 2] or [B,"),
        bad_value(size=(0, 4), says="is (0, 4), must be two whole numbers >= 1"),
    ),
}
