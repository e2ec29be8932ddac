"""A factorization machine (Rendle, 2010) of two features for each sample, user and item, with AdaGrad in the servers:
w_u + w_i + v_u . v_i, beside the mean. A row is (w, v) of a feature."""

from pathlib import Path

import numpy as np
import proteus


class Machine(proteus.App):
    """ratings by a factorization machine"""

    data = proteus.Option(type=Path, required=True, help="ratings: lines of user, item, rating")
    out = proteus.Option(type=Path, help="write the rows of all features there, as .npz")
    rank = proteus.Option(8, minimum=1, help="factors of a feature")
    rate = proteus.Option(0.1, minimum=0, help="length of a row's first steps")
    decay = proteus.Option(0.02, minimum=0, help="L2 regularization")

    users = proteus.Table(np.float32, start=proteus.Normal(0.05))
    movies = proteus.Table(np.float32, start=proteus.Normal(0.05))
    rmse = proteus.Metric("root_mean")
    test_rmse = proteus.Metric("root_mean", evaluated=True)

    item_rows = ("users", "movies")
    item = np.float32
    read_only_emits = True
    clocks_per_iteration = 16

    def configure(self, worker):
        for table in self.users, self.movies:
            table.width = 1 + self.rank
            table.optimizer = proteus.AdaGrad(self.rate, initial=1.0)

    def read(self, worker):
        def each(worker, ratings):
            user, movie, value = ratings["user"], ratings["item"], ratings["value"]
            test = (user * np.uint64(31) + movie) % np.uint64(10) == 0
            worker.emit(value, np.stack([user, movie], axis=1), test=test, totals=np.where(test, 0, value)[:, None])

        worker.read_ratings(self.data, each)

    def errors(self, worker, items):
        u = worker.table("users").rows[items.slots[:, 0]]
        m = worker.table("movies").rows[items.slots[:, 1]]
        mean = worker.total(0) / worker.total_items
        return u, m, items.data - (mean + u[:, 0] + m[:, 0] + (u[:, 1:] * m[:, 1:]).sum(axis=1))

    def clock(self, worker, items):
        u, m, error = self.errors(worker, items)
        one = np.ones((len(items), 1), np.float32)
        for table, slots, own, other in (("users", items.slots[:, 0], u, m), ("movies", items.slots[:, 1], m, u)):
            worker.table(table).add(slots, self.decay * own - error[:, None] * np.hstack([one, other[:, 1:]]))
        worker.metric("rmse", (error**2).sum(), len(items))

    def evaluate(self, worker, items):
        worker.metric("test_rmse", (self.errors(worker, items)[2] ** 2).sum(), len(items))

    def finish(self, worker):
        if self.out is not None:
            users, movies = worker.scan("users"), worker.scan("movies")
            np.savez(self.out, users=users[0], user_rows=users[1], movies=movies[0], movie_rows=movies[1])


if __name__ == "__main__":
    proteus.main(Machine)
