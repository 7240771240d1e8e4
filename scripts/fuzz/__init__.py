"""Random calls of every operator and public function, in processes that may die."""
